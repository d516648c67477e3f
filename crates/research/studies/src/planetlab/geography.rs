//! Where networks are, and how far it is from one to another.

/// A continent as PlanetLab saw it.
#[derive(Debug, Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Region {
    NorthAmerica,
    Europe,
    Asia,
    SouthAmerica,
    Oceania,
}

use Region::{Asia, Europe, NorthAmerica, Oceania, SouthAmerica};

impl Region {
    pub(crate) const ALL: [Region; 5] = [NorthAmerica, Europe, Asia, SouthAmerica, Oceania];

    /// Share of the sites, in percent: PlanetLab was mostly North American and European.
    pub(crate) fn percent(self) -> u32 {
        match self {
            NorthAmerica => 45,
            Europe => 35,
            Asia => 13,
            SouthAmerica => 4,
            Oceania => 3,
        }
    }

    pub(crate) fn short(self) -> &'static str {
        match self {
            NorthAmerica => "na",
            Europe => "eu",
            Asia => "as",
            SouthAmerica => "sa",
            Oceania => "oc",
        }
    }
}

/// A regional or national research network, at the city it is run from.
#[derive(Debug, Copy, Clone)]
pub(crate) struct Home {
    pub(crate) name: &'static str,
    pub(crate) region: Region,
    /// Degrees north and east.
    at: (f64, f64),
}

const fn home(name: &'static str, region: Region, north: f64, east: f64) -> Home {
    Home {
        name,
        region,
        at: (north, east),
    }
}

pub(crate) const HOMES: [Home; 24] = [
    home("newyork", NorthAmerica, 40.7, -74.0),
    home("atlanta", NorthAmerica, 33.7, -84.4),
    home("chicago", NorthAmerica, 41.9, -87.6),
    home("houston", NorthAmerica, 29.8, -95.4),
    home("denver", NorthAmerica, 39.7, -105.0),
    home("seattle", NorthAmerica, 47.6, -122.3),
    home("losangeles", NorthAmerica, 34.1, -118.2),
    home("toronto", NorthAmerica, 43.7, -79.4),
    home("london", Europe, 51.5, -0.1),
    home("paris", Europe, 48.9, 2.4),
    home("madrid", Europe, 40.4, -3.7),
    home("frankfurt", Europe, 50.1, 8.7),
    home("rome", Europe, 41.9, 12.5),
    home("stockholm", Europe, 59.3, 18.1),
    home("warsaw", Europe, 52.2, 21.0),
    home("athens", Europe, 38.0, 23.7),
    home("tokyo", Asia, 35.7, 139.7),
    home("seoul", Asia, 37.6, 127.0),
    home("beijing", Asia, 39.9, 116.4),
    home("taipei", Asia, 25.0, 121.6),
    home("singapore", Asia, 1.4, 103.8),
    home("saopaulo", SouthAmerica, -23.6, -46.6),
    home("santiago", SouthAmerica, -33.4, -70.7),
    home("sydney", Oceania, -33.9, 151.2),
];

/// Light in fibre goes 200 km in a millisecond, and routes are about 1.4 times as long as the great
/// circle.
const KM_PER_MS: f64 = 200.0 / 1.4;
const EARTH_RADIUS_KM: f64 = 6371.0;

/// One-way propagation delay between two networks, ms.
pub(crate) fn delay_ms(from: usize, to: usize) -> f64 {
    great_circle_km(HOMES[from].at, HOMES[to].at) / KM_PER_MS
}

/// The city at which traffic from one region to another leaves the first.
pub(crate) fn gateway(from: Region, to: Region) -> usize {
    let name = match (from, to) {
        (NorthAmerica, Europe) => "newyork",
        (NorthAmerica, SouthAmerica) => "atlanta",
        (NorthAmerica, _) => "losangeles",
        (Europe, NorthAmerica) => "london",
        (Europe, SouthAmerica) => "madrid",
        (Europe, _) => "frankfurt",
        (Asia, NorthAmerica | SouthAmerica) => "tokyo",
        (Asia, _) => "singapore",
        (SouthAmerica, Oceania) => "santiago",
        (SouthAmerica, _) => "saopaulo",
        (Oceania, _) => "sydney",
    };
    let at = HOMES.iter().position(|home| home.name == name);
    at.expect("gateways are among the homes")
}

fn great_circle_km(a: (f64, f64), b: (f64, f64)) -> f64 {
    let (north, south) = (a.0.to_radians(), b.0.to_radians());
    let half = |difference: f64| (difference.to_radians() / 2.0).sin().powi(2);
    let haversine = half(b.0 - a.0) + north.cos() * south.cos() * half(b.1 - a.1);
    2.0 * EARTH_RADIUS_KM * haversine.sqrt().min(1.0).asin()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str) -> usize {
        HOMES.iter().position(|home| home.name == name).unwrap()
    }

    #[test]
    fn distances_are_the_earths() {
        let known = [
            ("newyork", "london", 5570.0),
            ("tokyo", "sydney", 7820.0),
            ("losangeles", "singapore", 14_110.0),
        ];
        for (from, to, km) in known {
            let found = great_circle_km(HOMES[at(from)].at, HOMES[at(to)].at);
            assert!((found / km - 1.0).abs() < 0.01, "{from}-{to}: {found} km");
        }
    }

    #[test]
    fn gateways_are_in_their_region() {
        for from in Region::ALL {
            for to in Region::ALL {
                if from != to {
                    assert_eq!(HOMES[gateway(from, to)].region, from);
                }
            }
        }
    }

    #[test]
    fn shares_are_of_a_hundred() {
        let percent: u32 = Region::ALL.iter().map(|region| region.percent()).sum();
        assert_eq!(percent, 100);
    }
}
