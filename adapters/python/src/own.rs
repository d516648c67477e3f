//! Laws written in Python, for prototypes: the packet level calls them at each acknowledgement and
//! each loss.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use manyway_control::{Law, Path, registry};
use manyway_simulate::batch::Control;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::wrong;

/// No law adds so many packets for an acknowledgement, nor has so large a smallest window: a window
/// of a mistake would take all memory.
const MOST: f64 = 1e6;

/// What makes the law of each name.
static MAKERS: LazyLock<Mutex<HashMap<String, Maker>>> = LazyLock::new(Mutex::default);

/// What makes a law, and what is said about it.
struct Maker {
    make: Py<PyAny>,
    about: String,
}

thread_local! {
    /// Who hears of what goes wrong in laws that this thread makes.
    static WATCH: RefCell<Option<Arc<Watch>>> = const { RefCell::new(None) };
}

/// The first thing that goes wrong in a law while a scenario is read and run.
#[derive(Debug)]
pub(crate) struct Watch {
    control: Arc<Control>,
    error: Mutex<Option<PyErr>>,
}

impl Watch {
    /// Stops what `control` controls when a law fails.
    pub(crate) fn new(control: &Arc<Control>) -> Arc<Self> {
        Arc::new(Self {
            control: control.clone(),
            error: Mutex::new(None),
        })
    }

    /// Does something that makes laws, on this thread.
    pub(crate) fn over<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let before = WATCH.replace(Some(self.clone()));
        let done = work();
        WATCH.set(before);
        done
    }

    /// What went wrong, if anything did.
    pub(crate) fn error(&self) -> PyResult<()> {
        let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        error.take().map_or(Ok(()), Err)
    }

    fn fail(&self, error: PyErr) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
        self.control.stop();
    }
}

/// Gives a law a name in the registry. `make` is called for each connection and returns an object
/// with the methods of `manyway.Law`. A law that was added before is replaced by one of its name.
#[pyfunction]
pub(crate) fn add_law(name: &str, about: &str, make: Py<PyAny>) -> PyResult<()> {
    let mut makers = MAKERS.lock().unwrap_or_else(PoisonError::into_inner);
    if !makers.contains_key(name) {
        registry::add(name, about, |name| Box::new(Own::new(name))).map_err(wrong)?;
    }
    let about = about.to_owned();
    makers.insert(name.to_owned(), Maker { make, about });
    Ok(())
}

/// What was said last about the law of this name, if it is written in Python: the registry keeps
/// what was said first.
pub(crate) fn about(name: &str) -> Option<String> {
    let makers = MAKERS.lock().unwrap_or_else(PoisonError::into_inner);
    makers.get(name).map(|maker| maker.about.clone())
}

/// Whether the law of this name is written in Python.
pub(crate) fn is_own(name: &str) -> bool {
    let makers = MAKERS.lock().unwrap_or_else(PoisonError::into_inner);
    makers.contains_key(name)
}

/// The law of one connection.
struct Own {
    name: &'static str,
    methods: Option<Methods>,
    watch: Option<Arc<Watch>>,
}

/// The methods of a law's object, those that it need not have among them.
struct Methods {
    increase: Py<PyAny>,
    decrease: Py<PyAny>,
    min_ssthresh: f64,
    on_path_added: Option<Py<PyAny>>,
    on_path_removed: Option<Py<PyAny>>,
    on_acked: Option<Py<PyAny>>,
    on_lost: Option<Py<PyAny>>,
    on_spurious_loss: Option<Py<PyAny>>,
}

impl Methods {
    fn of(name: &str) -> PyResult<Self> {
        Python::attach(|py| {
            let make = {
                let makers = MAKERS.lock().unwrap_or_else(PoisonError::into_inner);
                makers.get(name).map(|maker| maker.make.clone_ref(py))
            };
            let make = make.ok_or_else(|| wrong(format!("no law is called {name}")))?;
            let law = make.bind(py).call0()?;
            let optional = |method: &str| match law.getattr_opt(method)? {
                Some(method) if !method.is_none() => Ok::<_, PyErr>(Some(method.unbind())),
                _ => Ok(None),
            };
            let floor = optional("min_ssthresh")?;
            let floor: f64 = floor.map_or(Ok(2.0), |floor| floor.extract(py))?;
            // Written so that it refuses NaN, too.
            if !(floor > 0.0 && floor <= MOST) {
                return Err(wrong(format!(
                    "the law {name} has a min_ssthresh of {floor}: it must be above 0 and at most \
                     {MOST} packets"
                )));
            }
            Ok(Self {
                increase: law.getattr("increase")?.unbind(),
                decrease: law.getattr("decrease")?.unbind(),
                min_ssthresh: floor,
                on_path_added: optional("on_path_added")?,
                on_path_removed: optional("on_path_removed")?,
                on_acked: optional("on_acked")?,
                on_lost: optional("on_lost")?,
                on_spurious_loss: optional("on_spurious_loss")?,
            })
        })
    }
}

impl Own {
    fn new(name: &'static str) -> Self {
        let watch = WATCH.with_borrow(Clone::clone);
        let methods = Methods::of(name);
        let methods = methods.map_err(|error| tell(watch.as_ref(), error)).ok();
        Self {
            name,
            methods,
            watch,
        }
    }

    /// `I_r` or `D_r`; 0 once something has gone wrong, such as a value out of range.
    fn rule(
        &self,
        name: &str,
        which: fn(&Methods) -> &Py<PyAny>,
        range: &RangeInclusive<f64>,
        (paths, r): (&[Path<f64>], usize),
    ) -> f64 {
        let Some(methods) = &self.methods else {
            return 0.0;
        };
        let value = Python::attach(|py| {
            let windows = PyTuple::new(py, paths.iter().map(|path| path.window))?;
            let rtts = PyTuple::new(py, paths.iter().map(|path| path.rtt))?;
            let rule = which(methods).bind(py);
            let value: f64 = rule.call1((windows, rtts, r))?.extract()?;
            let must = match value.is_finite() {
                true if range.contains(&value) => return Ok(value),
                true if value < *range.start() => format!("at least {} packets", range.start()),
                true => format!("at most {} packets", range.end()),
                false => "a finite number of packets".to_owned(),
            };
            Err(PyValueError::new_err(format!(
                "the law {} gave {value} for path {r} as {name}: it must be {must}",
                self.name
            )))
        });
        value.unwrap_or_else(|error| {
            tell(self.watch.as_ref(), error);
            0.0
        })
    }

    fn hook<'a, A>(&'a self, which: fn(&'a Methods) -> &'a Option<Py<PyAny>>, arguments: A)
    where
        A: for<'py> pyo3::call::PyCallArgs<'py>,
    {
        let Some(hook) = self.methods.as_ref().and_then(|all| which(all).as_ref()) else {
            return;
        };
        let called = Python::attach(|py| hook.call1(py, arguments).map(drop));
        if let Err(error) = called {
            tell(self.watch.as_ref(), error);
        }
    }
}

/// Tells whoever watches; otherwise Python's hook for errors that nobody can catch.
fn tell(watch: Option<&Arc<Watch>>, error: PyErr) {
    match watch {
        Some(watch) => watch.fail(error),
        None => Python::attach(|py| error.write_unraisable(py, None)),
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Own").field(&self.name).finish()
    }
}

impl Law for Own {
    fn increase(&self, paths: &[Path<f64>], r: usize) -> f64 {
        self.rule("increase", |all| &all.increase, &(-MOST..=MOST), (paths, r))
    }

    fn decrease(&self, paths: &[Path<f64>], r: usize) -> f64 {
        self.rule(
            "decrease",
            |all| &all.decrease,
            &(0.0..=f64::MAX),
            (paths, r),
        )
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn min_ssthresh(&self, _: usize) -> f64 {
        self.methods.as_ref().map_or(2.0, |all| all.min_ssthresh)
    }

    fn on_path_added(&mut self, packet_size: u32) {
        self.hook(|methods| &methods.on_path_added, (packet_size,));
    }

    fn on_path_removed(&mut self, r: usize) {
        self.hook(|methods| &methods.on_path_removed, (r,));
    }

    fn on_acked(&mut self, r: usize, packets: f64, rtt: f64) {
        self.hook(|methods| &methods.on_acked, (r, packets, rtt));
    }

    fn on_lost(&mut self, r: usize) {
        self.hook(|methods| &methods.on_lost, (r,));
    }

    fn on_spurious_loss(&mut self, r: usize) {
        self.hook(|methods| &methods.on_spurious_loss, (r,));
    }
}
