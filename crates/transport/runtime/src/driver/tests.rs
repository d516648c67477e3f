use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Wake;

use manyway_session::{Config, Endpoint, Purpose};

use super::*;
use crate::clock::Clock;
use crate::interfaces::{InterfaceSelection, Place};
use crate::tcp::TcpOptions;
use crate::tcp::carrier::{self, NewCarrier};

/// Whether somebody has been woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

fn driver() -> Driver {
    let place = Place {
        ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
        device: None,
    };
    let sockets = Sockets::bind(&BTreeSet::from([place]), 0).unwrap();
    let session = Endpoint::new(Arc::new(Config::default()), [7; 32]).unwrap();
    let selection = InterfaceSelection::default();
    let shared = Shared::new(Clock::start(), session, selection, TcpOptions::default());
    shared.look(|state| state.handles += 1);
    Driver::new(shared, sockets)
}

#[tokio::test]
async fn after_the_last_rest_packets_wake_the_driver() {
    let mut driver = driver();
    // No timer.
    driver.next_review = Time::MAX;
    let (_, bound) = driver.sockets.iter().next().unwrap();
    let addr = bound.socket.addr();
    let woken = Arc::new(Woken::default());
    let waker = woken.clone().into();
    let turn = |driver: &mut Driver| {
        woken.0.store(false, Relaxed);
        let polled = Pin::new(driver).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        woken.0.load(Relaxed)
    };
    while turn(&mut driver) {}
    driver.rests = Rests::always(Duration::from_micros(100));
    for _ in 0..3 {
        assert!(turn(&mut driver) && driver.rested);
    }
    // What comes now has the reactor wake the driver, which needs nobody to wake it.
    let send = |byte| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.send_to(&[byte], addr).unwrap();
    };
    send(1);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(turn(&mut driver) && driver.rested);
    driver.rests = Rests::default();
    while turn(&mut driver) {}
    send(2);
    for _ in 0..500 {
        if woken.0.load(Relaxed) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("nobody wakes the driver");
}

/// Its address may go while a connection is dialled.
#[tokio::test]
async fn a_carrier_needs_the_socket_of_its_address() {
    let driver = driver();
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let add = |name: &str| {
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let new = NewCarrier {
            stream: tokio::net::TcpStream::from_std(stream).unwrap(),
            name: name.to_owned(),
            purpose: Purpose::Accepted,
            relay: false,
        };
        carrier::start(&driver.shared, new).is_ok()
    };
    assert_eq!(["127.0.0.1", "wlan0"].map(add), [true, false]);
    let place = driver.shared.look(|state| state.locals.pop_first());
    assert!(place.is_some() && !add("127.0.0.1"));
}
