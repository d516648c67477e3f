//! The congestion controls that the kernel has from here.

use std::ffi::OsStr;
use std::fs;

use libbpf_rs::btf::types::{MemberAttr, Struct};
use libbpf_rs::btf::{self, Btf};
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

use crate::Failure;

/// The laws that the object has.
pub(crate) const LAWS: [&str; 6] = ["lia", "olia", "balia", "coupled", "semicoupled", "ewtcp"];

/// The names of all congestion controls, whoever brought them.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// That of connections which don't choose, in this network namespace.
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// `bpf_struct_ops_state`: registered.
const IN_USE: u32 = 1;

/// One of them.
pub(crate) struct Loaded {
    pub(crate) name: String,
    pub(crate) law: &'static str,
    /// How often sockets and namespaces refer to it.
    pub(crate) uses: u32,
    map: MapHandle,
}

/// All, by name. Those that are unloaded but that sockets still use don't count.
pub(crate) fn list() -> Result<Vec<Loaded>, Failure> {
    let layout = Layout::of_kernel()?;
    let mut all = Vec::new();
    for info in MapInfoIter::default() {
        let Some(law) = law_of(&info.name).filter(|_| info.ty == MapType::StructOps) else {
            continue;
        };
        // It may go meanwhile.
        let Ok(map) = MapHandle::from_map_id(info.id) else {
            continue;
        };
        let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let value =
            value.map_err(|error| Failure::Kernel("reading a congestion control", error))?;
        let Some((name, uses)) = value.as_deref().and_then(|value| layout.read(value)) else {
            continue;
        };
        all.push(Loaded {
            name,
            law,
            uses,
            map,
        });
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Takes one from the kernel. Sockets that use it keep it until they close.
pub(crate) fn unload(name: &str) -> Result<u32, Failure> {
    let all = list()?;
    let Some(one) = all.iter().find(|one| one.name == name) else {
        let there = available()?.iter().any(|one| one == name);
        let ours = all.into_iter().map(|one| one.name).collect();
        return Err(Failure::NotOurs {
            name: name.into(),
            there,
            ours,
        });
    };
    let default = fs::read_to_string(DEFAULT).unwrap_or_default();
    if default.trim() == name {
        return Err(Failure::Default(name.into()));
    }
    one.map
        .delete(&0_u32.to_ne_bytes())
        .map_err(|error| Failure::Kernel("unloading the congestion control", error))?;
    Ok(one.uses)
}

/// The names of the kernel's congestion controls.
pub(crate) fn available() -> Result<Vec<String>, Failure> {
    let names = fs::read_to_string(AVAILABLE);
    let names = names.map_err(|error| Failure::File(AVAILABLE, error))?;
    Ok(names.split_whitespace().map(String::from).collect())
}

/// The law of a map of the object's, by its name, of which the kernel keeps 15 characters.
pub(crate) fn law_of(map: &OsStr) -> Option<&'static str> {
    let cut = map.to_str()?.strip_prefix("manyway_")?;
    LAWS.into_iter()
        .find(|law| *law == cut || (cut.len() == 7 && law.starts_with(cut)))
}

/// Where the kernel's `bpf_struct_ops_tcp_congestion_ops` has what is read here, in bytes.
struct Layout {
    uses: usize,
    state: usize,
    name: usize,
}

impl Layout {
    fn of_kernel() -> Result<Self, Failure> {
        let kernel = Btf::from_vmlinux();
        let kernel =
            kernel.map_err(|error| Failure::Kernel("reading the kernel's types", error))?;
        let find = || {
            let whole = kernel.type_by_name::<Struct<'_>>("bpf_struct_ops_tcp_congestion_ops")?;
            let common = kernel.type_by_name::<Struct<'_>>("bpf_struct_ops_common_value")?;
            let ops = kernel.type_by_name::<Struct<'_>>("tcp_congestion_ops")?;
            let before = offset(&whole, "common")?;
            Some(Self {
                uses: before + offset(&common, "refcnt")?,
                state: before + offset(&common, "state")?,
                name: offset(&whole, "data")? + offset(&ops, "name")?,
            })
        };
        find().ok_or(Failure::Layout)
    }

    /// Name and uses of what a map holds, if that is registered.
    fn read(&self, value: &[u8]) -> Option<(String, u32)> {
        let word = |at: usize| Some(u32::from_ne_bytes(*value.get(at..)?.first_chunk()?));
        if word(self.state)? != IN_USE {
            return None;
        }
        let name: &[u8; 16] = value.get(self.name..)?.first_chunk()?;
        let name = name.split(|&byte| byte == 0).next()?;
        // The map's own entry is one.
        let uses = word(self.uses)?.saturating_sub(1);
        Some((String::from_utf8_lossy(name).into_owned(), uses))
    }
}

/// Where a structure has a field, in bytes.
fn offset(of: &btf::types::Struct<'_>, field: &str) -> Option<usize> {
    let member = of
        .iter()
        .find(|member| member.name == Some(OsStr::new(field)))?;
    match member.attr {
        MemberAttr::Normal { offset } => Some(offset as usize / 8),
        MemberAttr::BitField { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_tell_their_laws_though_their_names_are_cut() {
        for law in LAWS {
            let name = format!("manyway_{law}");
            assert_eq!(law_of(OsStr::new(&name)), Some(law));
            assert_eq!(law_of(OsStr::new(&name[..name.len().min(15)])), Some(law));
        }
        for other in ["lia", "manyway_", "manyway_x", "manyway_li", "laws.rodata"] {
            assert_eq!(law_of(OsStr::new(other)), None, "{other}");
        }
    }

    #[test]
    fn a_value_tells_its_name_and_its_uses() {
        let layout = Layout {
            uses: 0,
            state: 4,
            name: 16,
        };
        let mut value = vec![0; 32];
        value[0] = 4;
        value[16..19].copy_from_slice(b"lia");
        assert_eq!(layout.read(&value), None);
        value[4] = 1;
        assert_eq!(layout.read(&value), Some(("lia".into(), 3)));
        assert_eq!(layout.read(&value[..31]), None);
    }
}
