//! The simulator and, under the virtual clock, complete sessions.

mod common;
mod detours;
mod faults;
mod field;
mod flood;
mod harm;
mod hostile;
mod long_fat;
mod meeting;
mod moving;
mod mpath;
mod mtu;
mod relays;
mod schedulers;
mod selection;
mod stack;
mod start;
mod survey;
mod transfer;
mod validity;
mod wvegas;
