//! The macro behind the registry's table in [`super`].

/// Turns the table into [`AnyLaw`], [`AnyController`] and the list of entries.
///
/// [`AnyLaw`]: super::AnyLaw
/// [`AnyController`]: super::AnyController
macro_rules! table {
    (@optional) => { None };
    (@optional $given:expr) => { Some($given) };
    (
        window_laws {
            $($law:ident $law_name:literal $law_about:literal
                { $($key:ident: $default:expr, $range:expr, $meaning:literal;)* })*
        }
        remembering {
            $($own_law:ident $own_law_name:literal $own_law_about:literal
                nearest $own_law_nearest:literal;)*
        }
        controllers {
            $($own:ident $own_name:literal $own_about:literal {
                parameters: $parameters:expr,
                capabilities: $capabilities:expr,
                fluid: $fluid:expr,
                $(path_manager: $path_manager:expr,)?
                make: |$values:pat_param, $options:ident| -> $own_type:ty $make:block
            })*
        }
    ) => {
        pub(crate) static ENTRIES: &[Entry] = &[
            $(Entry {
                name: $law_name,
                about: $law_about,
                parameters: &[$(Parameter::new(stringify!($key), $default, $range, $meaning)),*],
                capabilities: Capabilities::LOSS,
                fluid: |values| {
                    let [$($key),*] = exactly(values);
                    Fluid::Window(AnyLaw::$law($law { $($key),* }))
                },
                path_manager: None,
                controller: &|values, options| {
                    let [$($key),*] = exactly(values);
                    Ok(AnyController::$law(Coupled::new($law { $($key),* }, *options)))
                },
            },)*
            $(Entry {
                name: $own_law_name,
                about: $own_law_about,
                parameters: &[],
                capabilities: Capabilities::LOSS,
                fluid: |_| Fluid::None { nearest: $own_law_nearest },
                path_manager: None,
                controller: &|_, options| {
                    Ok(AnyController::$own_law(Coupled::new($own_law::default(), *options)))
                },
            },)*
            $(Entry {
                name: $own_name,
                about: $own_about,
                parameters: &$parameters,
                capabilities: $capabilities,
                fluid: $fluid,
                path_manager: table!(@optional $($path_manager)?),
                controller: &|values, options| {
                    const PARAMETERS: &[Parameter] = &$parameters;
                    let $values = exactly::<{ PARAMETERS.len() }>(values);
                    let $options = *options;
                    let made: Result<$own_type, String> = $make;
                    made.map(AnyController::$own)
                },
            },)*
        ];

        /// Any window law of the registry, chosen at run time yet generic over the scalar.
        #[derive(Copy, Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum AnyLaw {
            $(#[doc = $law_about] $law($law),)*
        }

        impl WindowLaw for AnyLaw {
            #[inline]
            fn increase<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
                match self { $(AnyLaw::$law(law) => WindowLaw::increase(law, paths, r),)* }
            }
            #[inline]
            fn decrease<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
                match self { $(AnyLaw::$law(law) => WindowLaw::decrease(law, paths, r),)* }
            }
            fn name(&self) -> &'static str {
                match self { $(AnyLaw::$law(law) => WindowLaw::name(law),)* }
            }
            fn min_ssthresh(&self, paths: usize) -> f64 {
                match self { $(AnyLaw::$law(law) => WindowLaw::min_ssthresh(law, paths),)* }
            }
        }

        /// Any controller of the registry, chosen at run time without dynamic dispatch.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum AnyController {
            $(#[doc = $law_about] $law(Coupled<$law>),)*
            $(#[doc = $own_law_about] $own_law(Coupled<$own_law>),)*
            $(#[doc = $own_about] $own($own_type),)*
            /// A law that was added at run time ([`registry::add`](crate::registry::add)).
            Added(Coupled<Box<dyn Law>>),
        }

        /// The same expression for whichever controller it is.
        macro_rules! each {
            ($any:expr, $controller:ident => $do:expr) => {
                match $any {
                    $(AnyController::$law($controller) => $do,)*
                    $(AnyController::$own_law($controller) => $do,)*
                    $(AnyController::$own($controller) => $do,)*
                    AnyController::Added($controller) => $do,
                }
            };
        }
    };
}
