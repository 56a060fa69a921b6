//! `testing/benchmarks/plot.py` draws what the benchmarks print.

use std::path::Path;
use std::process::{Command, Output};

use moonbridge_testing::network::folder;

fn plot(out: &Path, lines: &str) -> Output {
    let input = out.with_extension("jsonl");
    std::fs::write(&input, lines).expect("a file in a new folder");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benchmarks/plot.py");
    Command::new("python3").arg(script).arg(out).arg(input).output().expect("python3")
}

#[test]
fn every_point_is_drawn_at_its_median_with_its_range() {
    let mut lines = String::from("a table's line\n[1]\n");
    for (path, connections, cpu) in
        [("proxied", 100, 200), ("proxied", 100, 100), ("proxied", 100, 120), ("proxied", 10_000, 400), ("<a>", 1_000, 300)]
    {
        lines += &format!(
            "{{\"path\":\"{path}\",\"connections\":{connections},\"ticks_per_second\":20,\"probe\":null,\"proxy_cpu_ns_per_frame\":{cpu}}}\n"
        );
    }
    // Neither is the cost of a tick's frame in an undisturbed phase.
    lines += "{\"path\":\"proxied\",\"connections\":100,\"ticks_per_second\":20,\"probe\":\"user\",\"proxy_cpu_ns_per_frame\":9000}\n";
    lines += "{\"path\":\"proxied\",\"connections\":100,\"ticks_per_second\":null,\"probe\":null,\"proxy_cpu_ns_per_frame\":9000}\n";
    for (moment, bytes) in [("login", 90_000), ("idle", 4_096)] {
        lines += &format!(
            "{{\"repeat\":1,\"row\":{{\"kind\":\"vanilla\",\"sessions\":5000,\"moment\":\"{moment}\",\"bytes_per_session\":{bytes}}}}}\n"
        );
    }
    let folder = folder();
    let out = folder.path().join("cost.svg");
    let ran = plot(&out, &lines);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let svg = std::fs::read_to_string(&out).expect("it is written");
    // 300 pixels high from 50 on, for 0 to 400 ns; 420 wide from 70 on, for 100 to 10,000 sessions.
    for point in [
        "<circle cx=\"70.0\" cy=\"260.0\" r=\"3.5\" fill=\"#c4511b\"><title>proxied, 100 sessions: 120.0 ns [100.0–200.0], 3 measured</title>",
        "<line x1=\"70.0\" x2=\"70.0\" y1=\"275.0\" y2=\"200.0\"",
        "<polyline points=\"70.0,260.0 490.0,50.0\"",
        "<circle cx=\"280.0\" cy=\"125.0\" r=\"3.5\" fill=\"#1f6fb4\"><title>&lt;a&gt;, 1,000 sessions: 300.0 ns [300.0–300.0], 1 measured</title>",
        "<title>vanilla, 5,000 sessions: 4.0 KiB [4.0–4.0], 1 measured</title>",
    ] {
        assert!(svg.contains(point), "{point}\n{svg}");
    }
    assert_eq!(svg.matches("<circle").count(), 4);
}

#[test]
fn without_anything_to_draw_it_says_what_it_wants() {
    let folder = folder();
    let out = folder.path().join("cost.svg");
    let ran = plot(&out, "{}\nnothing\n");
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.code() == Some(1) && told.contains("memory-bench --json"), "{told}");
    assert!(!out.exists());
}
