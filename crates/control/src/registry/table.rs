/// Turns the table of the registry into [`AnyLaw`], [`AnyController`] and the list of entries.
///
/// [`AnyLaw`]: super::AnyLaw
/// [`AnyController`]: super::AnyController
macro_rules! table {
    (
        laws {
            $($law:ident $law_name:literal $law_about:literal
                { $($law_key:ident: $law_default:expr, $law_range:expr, $law_meaning:literal;)* })*
        }
        controllers {
            $($own:ident $own_name:literal $own_about:literal
                { $($own_key:ident: $own_default:expr, $own_range:expr, $own_meaning:literal;)* })*
        }
    ) => {
        const ENTRIES: &[Entry] = &[
            $(Entry {
                name: $law_name,
                about: $law_about,
                parameters: &[$(Parameter {
                    key: stringify!($law_key),
                    default: $law_default,
                    range: $law_range,
                    meaning: $law_meaning,
                }),*],
                controller: |values, options| {
                    let [$($law_key),*] = exactly(values);
                    AnyController::$law(Coupled::new($law { $($law_key),* }, *options))
                },
                law: Some(|values| {
                    let [$($law_key),*] = exactly(values);
                    AnyLaw::$law($law { $($law_key),* })
                }),
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
                    AnyController::$own($own::new($($own_key,)* *options))
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
            $(#[doc = $own_about] $own($own),)*
        }

        /// The same expression for whichever controller it is.
        macro_rules! each {
            ($any:expr, $controller:ident => $do:expr) => {
                match $any {
                    $(AnyController::$law($controller) => $do,)*
                    $(AnyController::$own($controller) => $do,)*
                }
            };
        }
    };
}
