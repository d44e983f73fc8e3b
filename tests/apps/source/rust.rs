// Rust's threads: their locks, conditions and parking are raw futex calls.
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Barrier, Condvar, Mutex, RwLock};
use std::time::Duration;
use std::{process, thread};

fn turns() {
    let state = Arc::new((Mutex::new(0), Condvar::new()));
    let team: Vec<_> = (0..8)
        .map(|me| {
            let s = state.clone();
            thread::spawn(move || {
                for _ in 0..500 {
                    let mut turn = s.1.wait_while(s.0.lock().unwrap(), |t| *t % 8 != me).unwrap();
                    *turn += 1;
                    s.1.notify_all();
                }
            })
        })
        .collect();
    team.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(*state.0.lock().unwrap(), 4000);
}

fn channels() {
    let (to, from) = mpsc::sync_channel(16);
    for k in 0..8 {
        let to = to.clone();
        thread::spawn(move || (0..1000u64).for_each(|i| to.send(i * k).unwrap()));
    }
    drop(to);
    assert_eq!(from.iter().sum::<u64>(), 28 * 499500);
}

fn locks() {
    let (pair, met) = (Arc::new(RwLock::new((0, 0))), Arc::new(Barrier::new(10)));
    let leaders = Arc::new(AtomicUsize::new(0));
    thread::scope(|s| {
        for i in 0..10 {
            let (pair, met, leaders) = (pair.clone(), met.clone(), leaders.clone());
            s.spawn(move || {
                for _ in 0..200 {
                    if i < 2 {
                        let mut p = pair.write().unwrap();
                        *p = (p.0 + 1, p.1 + 1);
                    } else {
                        let p = pair.read().unwrap();
                        assert_eq!(p.0, p.1);
                    }
                    if met.wait().is_leader() {
                        leaders.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(*pair.read().unwrap(), (400, 400));
    assert_eq!(leaders.load(Ordering::Relaxed), 200);
}

fn parked() {
    let team: Vec<_> = (0..300).map(|i| thread::spawn(move || { thread::park(); i })).collect();
    thread::sleep(Duration::from_millis(20));
    team.iter().for_each(|t| t.thread().unpark());
    assert_eq!(team.into_iter().map(|t| t.join().unwrap()).sum::<i32>(), 44850);
    assert!(thread::spawn(|| -> () { std::panic::set_hook(Box::new(|_| ())); panic!("wanted") }).join().is_err());
}

fn sockets() {
    let l = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = l.local_addr().unwrap();
    thread::spawn(move || {
        for s in l.incoming() {
            let mut s = s.unwrap();
            thread::spawn(move || {
                let mut b = [0; 4];
                while s.read_exact(&mut b).is_ok() {
                    b.reverse();
                    s.write_all(&b).unwrap();
                }
            });
        }
    });
    thread::scope(|s| {
        for i in 0..30u8 {
            s.spawn(move || {
                let mut c = TcpStream::connect(at).unwrap();
                for j in 0..50u8 {
                    let mut b = [0; 4];
                    c.write_all(&[i, j, 1, 2]).unwrap();
                    c.read_exact(&mut b).unwrap();
                    assert_eq!(b, [2, 1, j, i]);
                }
            });
        }
    });
}

fn children() {
    let team: Vec<_> = (0..12)
        .map(|i| thread::spawn(move || process::Command::new("/bin/sh").args(["-c", &format!("exit {i}")]).status()))
        .collect();
    for (i, t) in team.into_iter().enumerate() {
        assert_eq!(t.join().unwrap().unwrap().code(), Some(i as i32));
    }
}

fn main() {
    turns();
    channels();
    locks();
    parked();
    sockets();
    children();
    println!("all good");
}
