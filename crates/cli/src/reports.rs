//! What the user and programs are told of transfers: on the screen, on standard output with
//! `--json` and `--progress json`, by the hook, and in metrics.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use manyway::files::Progress;
use manyway::{Connection, Ticket};
use manyway_registry::{Code, RegistryUrl};

use crate::args::{ReportArgs, TicketArgs};
use crate::end::End;
use crate::exit::words;
use crate::hook::Hook;
use crate::metrics::{Active, Metrics};
use crate::output::Output;
use crate::progress::Report;
use crate::screen::Screen;
use crate::summary::Summary;

/// Reports of all transfers of a command.
#[derive(Debug, Clone)]
pub(crate) struct Reports {
    screen: Screen,
    output: Option<Output>,
    /// `--progress json`.
    progress: bool,
    hook: Option<Hook>,
    metrics: Option<Arc<Metrics>>,
    /// How many transfers have begun.
    begun: Arc<AtomicU64>,
}

impl Reports {
    pub(crate) fn start(screen: &Screen, args: &ReportArgs) -> anyhow::Result<Self> {
        let progress = args.progress.is_some();
        let output = (args.json || progress).then(Output::start).transpose()?;
        Ok(Self {
            screen: screen.clone(),
            output,
            progress,
            hook: None,
            metrics: None,
            begun: Arc::default(),
        })
    }

    /// Runs the hook of the options from now on, and counts transfers; `dir` is where a receiver's
    /// files go.
    ///
    /// # Errors
    /// The options are wrong, or the address for metrics can't be bound.
    pub(crate) async fn of_transfers(
        &mut self,
        args: &ReportArgs,
        dir: Option<&Path>,
    ) -> anyhow::Result<()> {
        self.hook = Hook::new(args, dir)?;
        if let Some(address) = args.metrics {
            self.metrics = Some(Metrics::serve(&self.screen, address).await?);
        }
        Ok(())
    }

    /// Reports to the screen alone.
    pub(crate) fn silent(screen: &Screen) -> Self {
        Self {
            screen: screen.clone(),
            output: None,
            progress: false,
            hook: None,
            metrics: None,
            begun: Arc::default(),
        }
    }

    /// Another transfer begins.
    pub(crate) fn begin(&self) -> Reporter {
        Reporter {
            reports: self.clone(),
            transfer: self.begun.fetch_add(1, Relaxed) + 1,
        }
    }

    /// We wait, and this is our ticket.
    pub(crate) fn listening(&self, ticket: &Ticket, args: &TicketArgs) {
        let hidden = self.screen.is_quiet() && args.ticket_file.is_some();
        self.report(|| Report::Ticket {
            ticket: (!hidden).then(|| ticket.to_string()),
            ticket_file: args.ticket_file.clone(),
        });
    }

    /// We wait, and this code leads to our ticket.
    pub(crate) fn offering(&self, code: &Code, registry: &RegistryUrl, life: Duration) {
        self.report(|| Report::Code {
            code: code.to_string(),
            registry: registry.to_string(),
            valid_seconds: life.as_secs(),
        });
    }

    pub(crate) fn report(&self, report: impl FnOnce() -> Report) {
        if let (Some(output), true) = (&self.output, self.progress) {
            output.event(&report());
        }
    }

    /// The only transfer of the command has ended, or couldn't begin. What is left out is an error,
    /// though the rest has arrived.
    pub(crate) async fn ended(&self, result: anyhow::Result<Summary>) -> anyhow::Result<()> {
        let last = self.begun.load(Relaxed);
        self.tell((last > 0).then_some(last), result).await
    }

    /// The command has failed, apart from its transfers.
    pub(crate) fn failed(&self, error: &anyhow::Error) {
        self.print(&Arc::new(End::failed(None, error)));
    }

    async fn tell(
        &self,
        transfer: Option<u64>,
        result: anyhow::Result<Summary>,
    ) -> anyhow::Result<()> {
        let (end, result) = match result {
            Ok(summary) => {
                self.screen.say(&summary.text());
                if self.output.is_none() {
                    list(&summary).context("can't write to standard output")?;
                }
                let result = summary.left_out().map_or(Ok(()), Err);
                (End::done(transfer, summary), result)
            }
            Err(error) => (End::failed(transfer, &error), Err(error)),
        };
        let end = Arc::new(end);
        self.print(&end);
        if let Some(hook) = &self.hook
            && let Err(error) = hook.run(&end).await
        {
            self.screen.error(&format!("manyway: {}", words(&error)));
        }
        result
    }

    fn print(&self, end: &Arc<End>) {
        if let Some(output) = &self.output
            && !output.end(end.clone())
        {
            self.screen.error(
                "manyway: nobody reads standard output: the JSON object of a transfer is left out",
            );
        }
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// Standard output failed.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self.output {
            Some(output) => output.close().await,
            None => Ok(()),
        }
    }
}

/// What a dry run's user asked for.
fn list(summary: &Summary) -> io::Result<()> {
    let mut stdout = BufWriter::new(io::stdout().lock());
    for line in summary.list() {
        writeln!(stdout, "{line}")?;
    }
    stdout.flush()
}

/// Reports of one transfer.
#[derive(Debug, Clone)]
pub(crate) struct Reporter {
    reports: Reports,
    transfer: u64,
}

impl Reporter {
    /// `report` gets the transfer's number.
    pub(crate) fn report(&self, report: impl FnOnce(u64) -> Option<Report>) {
        if let Some(report) = self
            .reports
            .progress
            .then(|| report(self.transfer))
            .flatten()
        {
            self.reports.report(|| report);
        }
    }

    /// Counts the transfer, if anybody wants to know.
    pub(crate) fn count(
        &self,
        connection: &Connection,
        progress: &Arc<Progress>,
    ) -> Option<Active> {
        let metrics = self.reports.metrics.as_ref();
        metrics.map(|metrics| metrics.begin(connection, progress))
    }

    /// The transfer has ended: see [`Reports::ended`].
    pub(crate) async fn ended(&self, result: anyhow::Result<Summary>) -> anyhow::Result<()> {
        self.reports.tell(Some(self.transfer), result).await
    }
}
