//! The registry and its clients, on real sockets and without.

mod codes;
mod common;
mod crowds;
mod etcd;
mod fuzz;
mod load;
mod rates;
mod registry;
mod security;
