/// Turns the table of the registry into [`AnyLaw`], [`AnyController`] and the list of entries.
///
/// [`AnyLaw`]: super::AnyLaw
/// [`AnyController`]: super::AnyController
macro_rules! table {
    (
        laws {
            $($law:ident $law_name:literal $law_about:literal
                { $($key:ident: $default:expr, $range:expr, $meaning:literal;)* })*
        }
        remembering {
            $($own_law:ident $own_law_name:literal $own_law_about:literal)*
        }
        controllers {
            $($own:ident $own_name:literal $own_about:literal
                { $($own_key:ident: $own_default:expr, $own_range:expr, $own_meaning:literal;)* }
                $own_type:ty = |$options:ident| $make:expr;)*
        }
    ) => {
        const ENTRIES: &[Entry] = &[
            $(Entry {
                name: $law_name,
                about: $law_about,
                parameters: &[$(Parameter {
                    key: stringify!($key),
                    default: $default,
                    range: $range,
                    meaning: $meaning,
                }),*],
                controller: |values, options| {
                    let [$($key),*] = exactly(values);
                    Ok(AnyController::$law(Coupled::new($law { $($key),* }, *options)))
                },
                law: Some(|values| {
                    let [$($key),*] = exactly(values);
                    AnyLaw::$law($law { $($key),* })
                }),
            },)*
            $(Entry {
                name: $own_law_name,
                about: $own_law_about,
                parameters: &[],
                controller: |_, options| {
                    Ok(AnyController::$own_law(Coupled::new($own_law::default(), *options)))
                },
                law: None,
            },)*
            $(Entry {
                name: $own_name,
                about: $own_about,
                parameters: &[$(Parameter {
                    key: stringify!($own_key),
                    default: $own_default,
                    range: $own_range,
                    meaning: $own_meaning,
                }),*],
                controller: |values, options| {
                    let [$($own_key),*] = exactly(values);
                    let $options = *options;
                    let made: Result<$own_type, String> = $make;
                    made.map(AnyController::$own)
                },
                law: None,
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
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum AnyController {
            $(#[doc = $law_about] $law(Coupled<$law>),)*
            $(#[doc = $own_law_about] $own_law(Coupled<$own_law>),)*
            $(#[doc = $own_about] $own($own_type),)*
        }

        /// The same expression for whichever controller it is.
        macro_rules! each {
            ($any:expr, $controller:ident => $do:expr) => {
                match $any {
                    $(AnyController::$law($controller) => $do,)*
                    $(AnyController::$own_law($controller) => $do,)*
                    $(AnyController::$own($controller) => $do,)*
                }
            };
        }
    };
}
