//! What other systems have in place of the commands that need Linux.

#[cfg(feature = "research")]
pub(crate) use self::research::{Live, isolated, testbed};

use crate::args::TunArgs;
use crate::exit::usage;
use crate::screen::Screen;

pub(crate) async fn tun(_screen: &Screen, _args: TunArgs) -> anyhow::Result<()> {
    Err(usage("`manyway tun` needs Linux's TUN devices"))
}

#[cfg(feature = "research")]
mod research {
    use manyway_results::Sheet;
    use manyway_simulate::batch::{Control, Report};

    use crate::args::TestbedArgs;
    use crate::exit::usage;
    use crate::run::folder::Folder;
    use crate::run::level::{Level, Request};
    use crate::run::packet::Packet;
    use crate::screen::Screen;

    pub(crate) async fn testbed(_screen: &Screen, _args: TestbedArgs) -> anyhow::Result<()> {
        Err(usage("`manyway testbed` needs Linux's network namespaces"))
    }

    /// The live level, which can't be prepared.
    pub(crate) enum Live {}

    impl Level for Live {
        type Report = Report;

        fn prepare(request: Request<'_>) -> anyhow::Result<Self> {
            Packet::live(request)?;
            Err(usage(
                "the live level needs Linux's network namespaces: choose other levels here",
            ))
        }

        fn sheets(&self) -> Vec<Sheet> {
            match *self {}
        }

        fn run(self, _: &Control, _: Option<&mut Folder>) -> anyhow::Result<Report> {
            match self {}
        }
    }

    /// Checks a request with live networks, which fails.
    pub(crate) async fn isolated<L: Level>(
        _screen: &Screen,
        request: Request<'_>,
    ) -> anyhow::Result<()> {
        L::prepare(request).map(drop)
    }
}
