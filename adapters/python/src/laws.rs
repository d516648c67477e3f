//! The laws of the registry, and the fluid form of one on arrays.

use manyway_control::laws::Fluid;
use manyway_control::registry;
use manyway_control::{LawSpec, Path, WindowLaw};
use manyway_fluid::FluidLaw as Bridge;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::{own, wrong};

/// A dict for each law: what `manyway laws --json` prints of it, and whether it has `I_r`, `D_r`.
#[pyfunction]
pub(crate) fn laws(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    registry::laws().map(|spec| described(py, &spec)).collect()
}

fn described<'py>(py: Python<'py>, spec: &LawSpec) -> PyResult<Bound<'py, PyDict>> {
    let law = PyDict::new(py);
    law.set_item("name", spec.name())?;
    let about = own::about(spec.name());
    law.set_item("about", about.as_deref().unwrap_or(spec.about()))?;
    law.set_item("acts_on", spec.capabilities().signal.to_string())?;
    law.set_item("has_window_form", matches!(spec.fluid(), Fluid::Window(_)))?;
    let mut parameters = Vec::new();
    for (parameter, _) in spec.parameters() {
        let entry = PyDict::new(py);
        entry.set_item("name", parameter.key)?;
        entry.set_item("default", parameter.default)?;
        entry.set_item("allowed", parameter.range.to_string())?;
        entry.set_item("meaning", parameter.meaning)?;
        parameters.push(entry);
    }
    law.set_item("parameters", parameters)?;
    Ok(law)
}

/// A window law with its parameters.
///
/// Arrays come and go as the bytes of doubles, row by row; each row has a number for each path.
#[pyclass(frozen, module = "manyway._native")]
#[derive(Debug)]
pub(crate) struct FluidLaw {
    spec: LawSpec,
    law: Bridge,
}

#[pymethods]
impl FluidLaw {
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        let spec: LawSpec = text.parse().map_err(wrong)?;
        let law = Bridge::of(&spec).map_err(wrong)?;
        Ok(Self { spec, law })
    }

    /// Its text form, which names what differs from the defaults.
    #[getter]
    fn text(&self) -> String {
        self.spec.to_string()
    }

    /// `I_r` for each path, packets for each acknowledged packet.
    fn increase<'py>(
        &self,
        py: Python<'py>,
        windows: &[u8],
        rtts: &[u8],
        paths: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let law = self.spec.window_law();
        each(py, (windows, rtts), paths, |paths, r| {
            law.map_or(f64::NAN, |law| law.increase(paths, r))
        })
    }

    /// `D_r` for each path, packets for each loss event.
    fn decrease<'py>(
        &self,
        py: Python<'py>,
        windows: &[u8],
        rtts: &[u8],
        paths: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let law = self.spec.window_law();
        each(py, (windows, rtts), paths, |paths, r| {
            law.map_or(f64::NAN, |law| law.decrease(paths, r))
        })
    }

    /// `φ_r = I_r/D_r` for each path: the loss probability at which its rate stays.
    fn phi<'py>(
        &self,
        py: Python<'py>,
        windows: &[u8],
        rtts: &[u8],
        paths: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        each(py, (windows, rtts), paths, |paths, r| {
            self.law.phi(paths, r)
        })
    }
}

fn each<'py>(
    py: Python<'py>,
    (windows, rtts): (&[u8], &[u8]),
    paths: usize,
    rule: impl Fn(&[Path<f64>], usize) -> f64 + Sync,
) -> PyResult<Bound<'py, PyBytes>> {
    const DOUBLE: usize = size_of::<f64>();
    let whole = paths > 0 && windows.len() == rtts.len() && windows.len() % (DOUBLE * paths) == 0;
    if !whole {
        return Err(wrong("give a window and a round-trip time for each path"));
    }
    let double = |bytes: &[u8; DOUBLE]| f64::from_ne_bytes(*bytes);
    let (windows, rtts) = (windows.as_chunks().0.iter(), rtts.as_chunks().0.iter());
    let all: Vec<Path<f64>> = windows
        .zip(rtts)
        .map(|(window, rtt)| Path {
            window: double(window),
            rtt: double(rtt),
        })
        .collect();
    let values: Vec<u8> = py.detach(|| {
        let states = all.chunks_exact(paths);
        let values = states.flat_map(|state| (0..paths).map(|r| rule(state, r)));
        values.flat_map(f64::to_ne_bytes).collect()
    });
    Ok(PyBytes::new(py, &values))
}
