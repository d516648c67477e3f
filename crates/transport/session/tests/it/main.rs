//! Two endpoints in one process, with a network made of queues.

mod carriers;
mod datagrams;
mod fuzz;
mod hostile;
mod interactive;
mod net;
mod pair;
mod picked_carriers;
mod races;
mod resume;
