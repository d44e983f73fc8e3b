// A panic or a stack overflow, of the first thread or of another, while others wait: what is said, and how it ends.
use std::sync::mpsc;
use std::{env, hint, process, thread};

#[allow(unconditional_recursion)]
fn deeper(n: u64) -> u64 {
    let room = hint::black_box([n; 100]);
    deeper(n + 1) + hint::black_box(room)[7]
}

fn end(way: &str) {
    match way {
        "panic" => panic!("as wanted"),
        _ => println!("{}", deeper(0)),
    }
}

fn main() {
    let args: Vec<String> = env::args().collect();
    let (way, who) = (args[1].clone(), args[2].as_str());
    let (here, there) = mpsc::channel();
    for _ in 0..20 {
        let here = here.clone();
        thread::spawn(move || {
            here.send(()).unwrap();
            thread::park();
        });
    }
    (0..20).for_each(|_| there.recv().unwrap());
    let other = match who {
        "first" => return end(&way),
        "other" => thread::Builder::new().name("the other".into()).spawn(move || end(&way)).unwrap(),
        _ => thread::spawn(move || end(&way)),
    };
    process::exit(if other.join().is_err() { 101 } else { 0 });
}
