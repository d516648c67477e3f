//! Means and series of a run, by quadrature over the integrator's steps.

use manyway_scenario::{Experiment, SeriesKind};
use manyway_units::Time;

use super::classes::Class;
use super::network::Reduced;
use super::reading::Reading;
use crate::dynamics::Step;

/// One flow over the measured time.
#[derive(Debug, Clone, PartialEq)]
pub struct FluidFlow {
    /// Its name.
    pub name: String,
    /// Rate of what arrives, without headers, over the measured time, or the part of it in which
    /// the flow was active, in bits/s.
    pub goodput_bps: f64,
    /// Each subflow.
    pub subflows: Vec<FluidSubflow>,
}

/// One subflow over the measured time.
#[derive(Debug, Clone, PartialEq)]
pub struct FluidSubflow {
    /// Its path's name.
    pub path: String,
    /// Rate of what arrives, without headers, in bits/s, as the flow's.
    pub goodput_bps: f64,
    /// The same in each named span, over the whole of it.
    pub spans_bps: Vec<f64>,
    /// Mean window while the subflow was there, in packets; NaN if it wasn't.
    pub window_mean_packets: f64,
    /// Mean round-trip time while it was there, in seconds.
    pub rtt_mean_s: f64,
    /// Mean price of its route while it was there: loss probability, for wVegas queueing delay in
    /// seconds.
    pub price_mean: f64,
}

/// One link over the measured time.
#[derive(Debug, Clone, PartialEq)]
pub struct FluidLink {
    /// Its name.
    pub name: String,
    /// Load in bits/s, which exceeds the capacity for as long as prices take to say so.
    pub load_bps: f64,
    /// Load over capacity, mean over time.
    pub utilisation: f64,
    /// Price: loss probability, for wVegas queueing delay in seconds.
    pub price_mean: f64,
}

/// A quantity over time, with a value at the end of each interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What it is.
    pub quantity: Quantity,
    /// The flow's name and the path's, or the link's.
    pub of: Vec<String>,
    /// Distance of the values, in seconds.
    pub interval_s: f64,
    /// The values; NaN where there is nothing to say.
    pub values: Vec<f64>,
}

/// What series there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Goodput of a subflow over the interval, bits/s.
    Rate,
    /// Window of a subflow at the interval's end, packets.
    Window,
    /// Its round-trip time then, seconds.
    Rtt,
    /// Load of a link over the interval, bits/s.
    Load,
    /// Price of a link at the interval's end: loss probability, for wVegas queueing delay in
    /// seconds.
    Price,
}

impl Quantity {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Rate => "rate",
            Quantity::Window => "window",
            Quantity::Rtt => "rtt",
            Quantity::Load => "load",
            Quantity::Price => "price",
        }
    }

    fn of_links(self) -> bool {
        matches!(self, Quantity::Load | Quantity::Price)
    }
}

/// Nodes and weights of Gauss' quadrature on (0, 1), exact to fifth order.
const GAUSS: [(f64, f64); 3] = [
    (0.112_701_665_379_258_31, 5.0 / 18.0),
    (0.5, 8.0 / 18.0),
    (0.887_298_334_620_741_7, 5.0 / 18.0),
];

/// Integrals of one subflow.
#[derive(Debug, Clone, Default)]
struct Subflow {
    measured: Total,
    /// Packets that arrive in each span.
    spans: Vec<f64>,
    /// Since the last sample.
    sample: Total,
}

/// What adds up over time while a subflow is there.
#[derive(Debug, Clone, Copy, Default)]
struct Total {
    seconds: f64,
    /// That enter links …
    packets: f64,
    /// … which carry them, and whose wires don't lose them.
    arrived: f64,
    window: f64,
    rtt: f64,
    price: f64,
}

impl Total {
    fn add(&mut self, other: &Total) {
        self.seconds += other.seconds;
        self.packets += other.packets;
        self.arrived += other.arrived;
        self.window += other.window;
        self.rtt += other.rtt;
        self.price += other.price;
    }
}

/// Integrals of one link.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    bits: f64,
    used: f64,
    price: f64,
    sample_bits: f64,
}

/// Means over the measured time and the spans, and series, while steps come in.
#[derive(Debug)]
pub(super) struct Recorder<'a> {
    experiment: &'a Experiment,
    classes: &'a [Class],
    /// Where the subflows of each class begin in `subflows`.
    first: Vec<usize>,
    subflows: Vec<Subflow>,
    links: Vec<Load>,
    measured: (f64, f64),
    spans: Vec<(f64, f64)>,
    interval: f64,
    /// How many samples were taken.
    samples: usize,
    quantities: Vec<Quantity>,
    /// By quantity, by subflow or link.
    values: Vec<Vec<Vec<f64>>>,
}

fn seconds(time: Time) -> f64 {
    time.since(Time::ZERO).as_secs_f64()
}

impl<'a> Recorder<'a> {
    pub(super) fn new(experiment: &'a Experiment, classes: &'a [Class]) -> Self {
        let mut first = Vec::new();
        let mut count = 0;
        for class in classes {
            first.push(count);
            count += experiment.flows[class.members[0]].paths.len();
        }
        let measure = &experiment.measure;
        let links = experiment.topology.links.len();
        let quantities = quantities(&measure.series);
        let values = quantities.iter().map(|quantity| {
            let count = if quantity.of_links() { links } else { count };
            vec![Vec::new(); count]
        });
        let subflow = Subflow {
            spans: vec![0.0; measure.spans.len()],
            ..Subflow::default()
        };
        Recorder {
            experiment,
            classes,
            first,
            subflows: vec![subflow; count],
            links: vec![Load::default(); links],
            measured: (seconds(measure.from), seconds(measure.until)),
            spans: measure
                .spans
                .iter()
                .map(|span| (seconds(span.from), seconds(span.until)))
                .collect(),
            interval: measure.interval.as_secs_f64(),
            samples: 0,
            values: values.collect(),
            quantities,
        }
    }

    /// Takes a step of an epoch that began at `epoch` seconds; packets of all routes over it.
    pub(super) fn take(
        &mut self,
        reduced: &Reduced,
        (step, epoch): (&Step, f64),
        read: impl Fn(f64) -> Reading,
    ) -> Vec<f64> {
        let mut packets = vec![0.0; reduced.subflows.len()];
        let (mut from, until) = (epoch + step.times.0, epoch + step.times.1);
        while from < until {
            let to = self.next_mark(from).min(until);
            let mut sums = vec![Total::default(); reduced.subflows.len()];
            let mut prices = vec![0.0; reduced.named];
            let mut used = vec![0.0; reduced.named];
            for (node, weight) in GAUSS {
                let part = weight * (to - from);
                let reading = read(from + node * (to - from) - epoch);
                let loads = self.loads(reduced, &reading.rates);
                let carried = reduced.network.routes().map(|(_, route)| {
                    let shares = route.links.iter().map(|&link| 1.0 / loads[link].max(1.0));
                    shares.product::<f64>()
                });
                for ((r, sum), carried) in sums.iter_mut().enumerate().zip(carried) {
                    sum.add(&Total {
                        seconds: part,
                        packets: part * reading.rates[r],
                        arrived: part * reading.rates[r] * (1.0 - reduced.losses[r]) * carried,
                        window: part * reading.windows[r],
                        rtt: part * reading.rtts[r],
                        price: part * reading.route_prices[r],
                    });
                }
                for (sum, price) in prices.iter_mut().zip(&reading.prices) {
                    *sum += part * price;
                }
                for (sum, load) in used.iter_mut().zip(&loads) {
                    *sum += part * load.min(1.0);
                }
            }
            for (all, sum) in packets.iter_mut().zip(&sums) {
                *all += sum.packets;
            }
            self.add(reduced, (from, to), (&sums, &prices, &used));
            if self.is_sample(to) {
                let reading = read(to - epoch);
                self.sample(reduced, Some(&reading));
            }
            from = to;
        }
        packets
    }

    /// What enters each link at these rates of the routes (packets/s), by what it can carry.
    fn loads(&self, reduced: &Reduced, rates: &[f64]) -> Vec<f64> {
        let links = &reduced.network.links;
        let mut loads = vec![0.0; links.len()];
        let routes = reduced.network.routes().zip(&reduced.packets);
        let routes = routes.zip(reduced.subflows.iter().zip(rates));
        for (((_, route), packet), (&(class, _), rate)) in routes {
            for &link in &route.links {
                loads[link] += rate * packet * self.classes[class].size() / links[link].capacity;
            }
        }
        loads
    }

    /// A time in which nobody is there.
    pub(super) fn idle(&mut self, reduced: &Reduced, (mut from, until): (f64, f64)) {
        while from < until {
            let to = self.next_mark(from).min(until);
            if self.is_sample(to) {
                self.sample(reduced, None);
            }
            from = to;
        }
    }

    /// The next moment after `now` at which something begins or ends.
    fn next_mark(&self, now: f64) -> f64 {
        let ends = self.spans.iter().chain([&self.measured]);
        let ends = ends.flat_map(|(from, until)| [*from, *until]);
        let sample = (self.samples + 1) as f64 * self.interval;
        ends.chain([sample])
            .filter(|&mark| mark > now)
            .fold(f64::INFINITY, f64::min)
    }

    fn is_sample(&self, now: f64) -> bool {
        now >= (self.samples + 1) as f64 * self.interval
    }

    fn add(
        &mut self,
        reduced: &Reduced,
        (from, to): (f64, f64),
        (sums, prices, used): (&[Total], &[f64], &[f64]),
    ) {
        let within = |(begin, end): (f64, f64)| begin <= from && to <= end;
        let measured = within(self.measured);
        let routes = reduced.network.routes().zip(&reduced.packets);
        let routes = routes.zip(reduced.subflows.iter().zip(sums));
        for (((_, route), packet), (&(class, path), sum)) in routes {
            let subflow = &mut self.subflows[self.first[class] + path];
            if measured {
                subflow.measured.add(sum);
            }
            for (packets, _) in subflow
                .spans
                .iter_mut()
                .zip(&self.spans)
                .filter(|(_, span)| within(**span))
            {
                *packets += sum.arrived;
            }
            subflow.sample.add(sum);
            let bits = sum.packets * packet * self.classes[class].size();
            for &link in route.links.iter().filter(|&&link| link < reduced.named) {
                let load = &mut self.links[link];
                load.sample_bits += bits;
                if measured {
                    load.bits += bits;
                }
            }
        }
        if measured {
            for (load, (price, used)) in self.links.iter_mut().zip(prices.iter().zip(used)) {
                load.price += price;
                load.used += used;
            }
        }
    }

    fn sample(&mut self, reduced: &Reduced, reading: Option<&Reading>) {
        self.samples += 1;
        let there = |index: usize| {
            let place = |&(class, path): &(usize, usize)| self.first[class] + path == index;
            reduced.subflows.iter().position(place)
        };
        let places: Vec<Option<usize>> = (0..self.subflows.len()).map(there).collect();
        for (quantity, series) in self.quantities.iter().zip(&mut self.values) {
            for (index, values) in series.iter_mut().enumerate() {
                let now = |of: fn(&Reading) -> &[f64]| {
                    let value = places[index]
                        .zip(reading)
                        .and_then(|(r, reading)| of(reading).get(r));
                    value.copied().unwrap_or(f64::NAN)
                };
                values.push(match quantity {
                    Quantity::Rate => match &self.subflows[index].sample {
                        total if total.seconds > 0.0 => total.arrived / self.interval,
                        _ => f64::NAN,
                    },
                    Quantity::Window => now(|reading| &reading.windows),
                    Quantity::Rtt => now(|reading| &reading.rtts),
                    Quantity::Load => self.links[index].sample_bits / self.interval,
                    Quantity::Price => reading.map_or(0.0, |reading| reading.prices[index]),
                });
            }
        }
        for subflow in &mut self.subflows {
            subflow.sample = Total::default();
        }
        for link in &mut self.links {
            link.sample_bits = 0.0;
        }
    }

    /// What was recorded: flows, links, series.
    pub(super) fn finish(self) -> (Vec<FluidFlow>, Vec<FluidLink>, Vec<Series>) {
        let mut class_of = vec![0; self.experiment.flows.len()];
        for (class, spec) in self.classes.iter().enumerate() {
            for &member in &spec.members {
                class_of[member] = class;
            }
        }
        let flows = class_of
            .iter()
            .enumerate()
            .map(|(flow, &class)| self.flow(flow, class));
        let flows = flows.collect();
        let length = self.measured.1 - self.measured.0;
        let links = self.experiment.topology.links.iter().zip(&self.links);
        let links = links.map(|(link, load)| FluidLink {
            name: link.name.clone(),
            load_bps: load.bits / length,
            utilisation: load.used / length,
            price_mean: load.price / length,
        });
        (flows, links.collect(), self.series(&class_of))
    }

    fn flow(&self, index: usize, class: usize) -> FluidFlow {
        let flow = &self.experiment.flows[index];
        let payload = self.payload(index);
        let stop = flow.stop.map_or(f64::INFINITY, seconds);
        let there = |(from, until): (f64, f64)| until.min(stop) - from.max(seconds(flow.start));
        let active = there(self.measured);
        let subflows = flow.paths.iter().enumerate().map(|(n, &path)| {
            let own = &self.subflows[self.first[class] + n];
            let total = &own.measured;
            let spans = own.spans.iter().zip(&self.spans);
            FluidSubflow {
                path: self.experiment.topology.paths[path].name.clone(),
                goodput_bps: if active > 0.0 {
                    total.arrived * payload / active
                } else {
                    0.0
                },
                spans_bps: spans
                    .map(|(packets, &span)| match there(span) {
                        active if active > 0.0 => packets * payload / active,
                        _ => f64::NAN,
                    })
                    .collect(),
                window_mean_packets: total.window / total.seconds,
                rtt_mean_s: total.rtt / total.seconds,
                price_mean: total.price / total.seconds,
            }
        });
        let subflows: Vec<FluidSubflow> = subflows.collect();
        FluidFlow {
            name: flow.name.clone(),
            goodput_bps: subflows.iter().map(|subflow| subflow.goodput_bps).sum(),
            subflows,
        }
    }

    /// Bits of a flow's packet without headers.
    fn payload(&self, flow: usize) -> f64 {
        let flow = &self.experiment.flows[flow];
        8.0 * f64::from(flow.sender.packet_size.saturating_sub(flow.headers))
    }

    fn series(&self, class_of: &[usize]) -> Vec<Series> {
        let mut all = Vec::new();
        let topology = &self.experiment.topology;
        for (&quantity, recorded) in self.quantities.iter().zip(&self.values) {
            let series = |of: Vec<String>, values: Vec<f64>| Series {
                quantity,
                of,
                interval_s: self.interval,
                values,
            };
            if quantity.of_links() {
                let links = topology.links.iter().zip(recorded);
                all.extend(
                    links.map(|(link, values)| series(vec![link.name.clone()], values.clone())),
                );
                continue;
            }
            for (index, flow) in self.experiment.flows.iter().enumerate() {
                let unit = if quantity == Quantity::Rate {
                    self.payload(index)
                } else {
                    1.0
                };
                for (n, &path) in flow.paths.iter().enumerate() {
                    let values = &recorded[self.first[class_of[index]] + n];
                    let of = vec![flow.name.clone(), topology.paths[path].name.clone()];
                    all.push(series(
                        of,
                        values.iter().map(|value| value * unit).collect(),
                    ));
                }
            }
        }
        all
    }
}

/// What the scenario asks for, as far as a fluid has it, and prices; rates and windows if it asks
/// for nothing.
fn quantities(asked: &[SeriesKind]) -> Vec<Quantity> {
    let known = |kind: &SeriesKind| match kind {
        SeriesKind::Rate => Some(Quantity::Rate),
        SeriesKind::Window => Some(Quantity::Window),
        SeriesKind::Rtt => Some(Quantity::Rtt),
        SeriesKind::Load => Some(Quantity::Load),
        SeriesKind::Queue | SeriesKind::Drops => None,
    };
    let mut quantities: Vec<Quantity> = asked.iter().filter_map(known).collect();
    if quantities.is_empty() {
        quantities = vec![Quantity::Rate, Quantity::Window];
    }
    quantities.push(Quantity::Price);
    quantities
}
