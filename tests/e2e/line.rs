//! A line between a gateway and its controller that a test can cut, freeze and lay to another port.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// A line. What came through it before stays open when it is dropped, until its ends close.
pub struct Line {
    /// Where the gateway dials.
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    target: AtomicU16,
    closed: AtomicBool,
    frozen: Mutex<bool>,
    thawed: Condvar,
    open: Mutex<Vec<TcpStream>>,
}

impl Line {
    /// A line to a port of this machine.
    pub fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            target: target.into(),
            closed: false.into(),
            frozen: Mutex::default(),
            thawed: Condvar::new(),
            open: Mutex::default(),
        });
        let serving = shared.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                if serving.closed.load(Ordering::SeqCst) {
                    return;
                }
                // Nobody there is a closed connection to the gateway.
                let Ok(far) = TcpStream::connect(("127.0.0.1", serving.target.load(Ordering::SeqCst))) else {
                    continue;
                };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to, shared) = (from.try_clone().unwrap(), to.try_clone().unwrap(), serving.clone());
                    std::thread::spawn(move || shared.carry(from, to));
                }
                serving.open.lock().unwrap().extend([near, far]);
            }
        });
        Self { port, shared }
    }

    /// Leads new connections to another port.
    pub fn lead_to(&self, target: u16) {
        self.shared.target.store(target, Ordering::SeqCst);
    }

    /// Cuts every connection.
    pub fn cut(&self) {
        for end in self.shared.open.lock().unwrap().drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Carries nothing from now on, not even an end: both sides see a peer that is silent.
    pub fn freeze(&self) {
        *self.shared.frozen.lock().unwrap() = true;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        *self.shared.frozen.lock().unwrap() = false;
        self.shared.thawed.notify_all();
        self.cut();
        // The listener's thread looks up once more.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn carry(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut block = vec![0; 64 * 1024];
        loop {
            let read = from.read(&mut block).unwrap_or(0);
            let frozen = self.frozen.lock().unwrap();
            drop(self.thawed.wait_while(frozen, |frozen| *frozen).unwrap());
            if read == 0 || to.write_all(&block[..read]).is_err() {
                let _ = to.shutdown(Shutdown::Both);
                let _ = from.shutdown(Shutdown::Both);
                return;
            }
        }
    }
}
