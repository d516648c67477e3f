//! Links that share their capacity by a rule.

use super::{InvalidFlows, Sharing, check_rates};

/// Links with capacities, and the paths over them.
#[derive(Clone, Debug)]
pub struct SharedLinks {
    capacities: Vec<f64>,
    /// Links of each path.
    paths: Lists,
    /// Paths over each link.
    users: Lists,
    /// Each path has one link: then links can be looked at one by one.
    single: bool,
    /// Of a link that is looked at: the paths whose share isn't known yet.
    open: Vec<u32>,
}

/// Lists of indices, one after the other.
#[derive(Clone, Debug)]
struct Lists {
    items: Vec<u32>,
    ends: Vec<u32>,
}

impl Lists {
    fn new<'a>(lists: impl Iterator<Item = &'a [usize]>) -> Self {
        let (mut items, mut ends) = (Vec::new(), vec![0]);
        for list in lists {
            items.extend(list.iter().map(|&item| item as u32));
            ends.push(items.len() as u32);
        }
        Lists { items, ends }
    }

    fn get(&self, index: usize) -> &[u32] {
        &self.items[self.ends[index] as usize..self.ends[index + 1] as usize]
    }

    fn len(&self) -> usize {
        self.ends.len() - 1
    }
}

impl SharedLinks {
    /// Links with these capacities (bits/s or any other unit of rates), and paths as lists of their
    /// links' indices.
    ///
    /// # Errors
    /// [`InvalidFlows`] for a capacity that is no rate, and for a path without links, over an
    /// unknown one, or twice over the same.
    pub fn new(capacities: Vec<f64>, paths: &[Vec<usize>]) -> Result<Self, InvalidFlows> {
        check_rates("capacity of link", &capacities)?;
        let count = capacities.len();
        let mut users = vec![Vec::new(); count];
        for (path, links) in paths.iter().enumerate() {
            let twice = |at: usize| links[..at].contains(&links[at]);
            if links.is_empty() || (0..links.len()).any(|at| links[at] >= count || twice(at)) {
                let links = links.clone();
                return Err(InvalidFlows::Path { path, links, count });
            }
            links.iter().for_each(|&link| users[link].push(path));
        }
        Ok(SharedLinks {
            capacities,
            paths: Lists::new(paths.iter().map(Vec::as_slice)),
            users: Lists::new(users.iter().map(Vec::as_slice)),
            single: paths.iter().all(|links| links.len() == 1),
            open: Vec::new(),
        })
    }

    /// How many paths there are.
    pub fn paths(&self) -> usize {
        self.paths.len()
    }

    /// The rate that arrives of each path, of what is offered to it: within capacities and offers.
    ///
    /// Work is linear in the paths' links as long as few links are overloaded, or paths have one
    /// link each; else, for max-min, at most quadratic.
    ///
    /// # Panics
    /// If there aren't as many offers and rates as paths.
    pub fn share(&mut self, sharing: Sharing, offered: &[f64], rates: &mut [f64]) {
        assert!(
            offered.len() == self.paths() && rates.len() == self.paths(),
            "one rate per path"
        );
        rates.copy_from_slice(offered);
        if sharing == Sharing::MaxMin && !self.single {
            let overloaded =
                (0..self.capacities.len()).any(|link| self.overload(link, offered).is_some());
            if overloaded {
                self.fill(offered, rates);
            }
            return;
        }
        for link in 0..self.capacities.len() {
            let Some(load) = self.overload(link, offered) else {
                continue;
            };
            let capacity = self.capacities[link];
            match sharing {
                Sharing::MaxMin => {
                    let most = self.level(link, offered);
                    self.limit(link, rates, |path| most.min(offered[path]));
                }
                Sharing::Proportional => {
                    self.limit(link, rates, |path| offered[path] * (capacity / load));
                }
                Sharing::EqualLoss => {
                    let loss = self.loss(link, load, offered);
                    self.limit(link, rates, |path| (offered[path] - loss).max(0.0));
                }
            }
        }
    }

    /// The load of a link that has too much.
    fn overload(&self, link: usize, offered: &[f64]) -> Option<f64> {
        let users = self.users.get(link).iter();
        let load = users.map(|&path| offered[path as usize]).sum();
        (load > self.capacities[link]).then_some(load)
    }

    fn limit(&self, link: usize, rates: &mut [f64], most: impl Fn(usize) -> f64) {
        for &path in self.users.get(link) {
            let path = path as usize;
            rates[path] = rates[path].min(most(path));
        }
    }

    /// The common share of an overloaded link: what remains when flows that want less have got it.
    fn level(&mut self, link: usize, offered: &[f64]) -> f64 {
        let mut left = self.capacities[link];
        self.reopen(link);
        loop {
            let level = left / self.open.len() as f64;
            let count = self.open.len();
            self.open.retain(|&path| {
                let content = offered[path as usize] <= level;
                left -= if content { offered[path as usize] } else { 0.0 };
                !content
            });
            // All content: only by rounding.
            if self.open.len() == count || self.open.is_empty() {
                return level;
            }
        }
    }

    /// What each flow loses on an overloaded link, when those that offer less than that have lost
    /// all.
    fn loss(&mut self, link: usize, load: f64, offered: &[f64]) -> f64 {
        let mut excess = load - self.capacities[link];
        self.reopen(link);
        loop {
            let loss = excess / self.open.len() as f64;
            let count = self.open.len();
            self.open.retain(|&path| {
                let gone = offered[path as usize] < loss;
                excess -= if gone { offered[path as usize] } else { 0.0 };
                !gone
            });
            if self.open.len() == count || self.open.is_empty() {
                return loss;
            }
        }
    }

    fn reopen(&mut self, link: usize) {
        self.open.clear();
        self.open.extend_from_slice(self.users.get(link));
    }

    /// Max-min over paths of several links, by progressive filling: all rates rise alike, until a
    /// path has what it wants or a link of it is full.
    fn fill(&self, offered: &[f64], rates: &mut [f64]) {
        let mut rising = Rising::new(self);
        while let Some(level) = rising.next_full(self) {
            let next = rising
                .paths()
                .map(|path| offered[path])
                .fold(level, f64::min);
            let content: Vec<usize> = rising
                .paths()
                .filter(|&path| offered[path] <= next)
                .collect();
            content
                .into_iter()
                .for_each(|path| rising.stop(self, path, offered[path], rates));
            if next == level {
                rising.stop_full(self, level, rates);
            }
        }
    }

    /// The *maxmin* procedure of the overlay paper as a limit of small units: all paths' rates rise
    /// alike, until a link is full, or until the path's source has its demand on all of its paths
    /// together. `owners` has the source of each path.
    ///
    /// # Panics
    /// If `owners` doesn't fit paths and demands.
    pub fn fill_to_demands(&self, owners: &[usize], demands: &[f64]) -> Vec<f64> {
        assert_eq!(owners.len(), self.paths(), "one owner per path");
        let mut rates = vec![0.0; self.paths()];
        let mut rising = Rising::new(self);
        // Of each source: what its stopped paths have, and how many still rise.
        let mut fixed = vec![0.0; demands.len()];
        let mut open = vec![0_usize; demands.len()];
        owners.iter().for_each(|&source| open[source] += 1);
        while let Some(full) = rising.next_full(self) {
            let level =
                |source: usize| ((demands[source] - fixed[source]) / open[source] as f64).max(0.0);
            let next = rising
                .paths()
                .map(|path| level(owners[path]))
                .fold(full, f64::min);
            let before: Vec<usize> = rising.paths().collect();
            let content = |path: &usize| level(owners[*path]) <= next;
            let satisfied: Vec<usize> = before.iter().copied().filter(content).collect();
            satisfied
                .into_iter()
                .for_each(|path| rising.stop(self, path, next, &mut rates));
            if next == full {
                rising.stop_full(self, full, &mut rates);
            }
            for path in before.into_iter().filter(|&path| !rising.open[path]) {
                fixed[owners[path]] += rates[path];
                open[owners[path]] -= 1;
            }
        }
        rates
    }
}

/// Progressive filling under way.
struct Rising {
    /// By path: its rate still rises.
    open: Vec<bool>,
    /// By link: what stopped paths leave, and how many still rise.
    left: Vec<f64>,
    count: Vec<usize>,
}

impl Rising {
    fn new(links: &SharedLinks) -> Self {
        Rising {
            open: vec![true; links.paths()],
            left: links.capacities.clone(),
            count: (0..links.capacities.len())
                .map(|link| links.users.get(link).len())
                .collect(),
        }
    }

    fn paths(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.open.len()).filter(|&path| self.open[path])
    }

    /// The level at which the next link is full; `None` when nothing rises any more.
    fn next_full(&self, links: &SharedLinks) -> Option<f64> {
        let used = (0..links.capacities.len()).filter(|&link| self.count[link] > 0);
        used.map(|link| self.level(link)).min_by(f64::total_cmp)
    }

    fn level(&self, link: usize) -> f64 {
        (self.left[link] / self.count[link] as f64).max(0.0)
    }

    fn stop(&mut self, links: &SharedLinks, path: usize, rate: f64, rates: &mut [f64]) {
        self.open[path] = false;
        rates[path] = rate;
        for &link in links.paths.get(path) {
            self.left[link as usize] -= rate;
            self.count[link as usize] -= 1;
        }
    }

    /// Stops all paths over links that are full at this level.
    fn stop_full(&mut self, links: &SharedLinks, level: f64, rates: &mut [f64]) {
        let full = |link: &usize| self.count[*link] > 0 && self.level(*link) <= level;
        let full: Vec<usize> = (0..self.left.len()).filter(full).collect();
        for &path in full.iter().flat_map(|&link| links.users.get(link)) {
            if self.open[path as usize] {
                self.stop(links, path as usize, level, rates);
            }
        }
    }
}

#[cfg(test)]
mod tests;
