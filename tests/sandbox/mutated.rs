//! Real components with harm done inside. Some are other programs that are as valid, so that they are
//! compiled and asked for their tools; others are harmed in one section, so that most of what reads
//! them does. Each is loaded or refused in words, never a crash (I6). With `LONGSHORE_LONG=1` there are
//! many more.

use std::collections::BTreeMap;
use std::ops::Range;

use longshore::wasm::{Compiler, LoadError, Sandbox};
use longshore_guests::RELAY;
use wasmparser::{FunctionBody, Parser, Payload};

use super::fixture::limits;
use crate::foreign::built;
use crate::harness::Random;

const CASES_IN_A_ROUND: usize = 80;

/// What numbers of a component begin with where it is worth a try: the largest, the smallest, and
/// those of no end.
const NUMBERS: [&[u8]; 6] = [
    &[0],
    &[0x7f],
    &[0x80, 0x80, 0x80, 0x80, 0x10],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0x03],
];

/// Small ones, so that there is time for many: a plugin in Rust, one in C, and those made by hand.
async fn whole() -> Vec<Vec<u8>> {
    let made = built("hostile").await;
    let mut files: Vec<_> = std::fs::read_dir(made.join("hostile"))
        .unwrap()
        .map(|file| file.unwrap().path())
        // Those that can be asked for their tools, and don't take all the time there is.
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            ["list", "memory", "table", "text"]
                .iter()
                .any(|kind| name.starts_with(kind))
        })
        .collect();
    files.sort();
    files.push(RELAY.component());
    files.push(built("c").await.join("plugins/c/relay.wasm"));
    files
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

/// Where the sections of a component and of everything inside it lie.
fn sections(wasm: &[u8]) -> Vec<Range<usize>> {
    Parser::new(0)
        .parse_all(wasm)
        .filter_map(|payload| match payload.ok()? {
            // The code of each function is a place of its own.
            Payload::CodeSectionEntry(body) => Some(body.range()),
            payload => payload.as_section().map(|(_, range)| range),
        })
        .filter(|range| !range.is_empty())
        .collect()
}

/// Where another byte makes another program that is as valid: what lies in memory, operators, and the
/// numbers that they are given. Each with what may be changed of the byte.
fn soft_spots(wasm: &[u8]) -> Vec<(usize, Spot)> {
    let mut spots = Vec::new();
    for payload in Parser::new(0).parse_all(wasm) {
        match payload {
            Ok(Payload::DataSection(section)) => {
                let segments = section.into_iter().flatten();
                let ranges = segments.map(|segment| {
                    let end = segment.range.end;
                    end - segment.data.len()..end
                });
                spots.extend(ranges.flatten().map(|at| (at, Spot::Byte)));
            }
            Ok(Payload::CodeSectionEntry(body)) => spots.extend(spots_of(wasm, &body)),
            _ => {}
        }
    }
    spots
}

#[derive(Clone, Copy)]
enum Spot {
    Byte,
    /// All but the bit that says whether the number goes on.
    Number,
    /// One of so many operators from this one on, which take and give the same.
    Operator(u8, u8),
}

fn spots_of(wasm: &[u8], body: &FunctionBody) -> Vec<(usize, Spot)> {
    const ALIKE: [(u8, u8); 4] = [(0x46, 10), (0x51, 10), (0x6a, 15), (0x7c, 15)];
    let mut spots = Vec::new();
    let operators = body.get_operators_reader().into_iter();
    let starts: Vec<usize> = operators
        .flat_map(|reader| reader.into_iter_with_offsets())
        .map_while(|operator| Some(operator.ok()?.1))
        .chain([body.range().end])
        .collect();
    for pair in starts.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        match wasm[start] {
            // Constants.
            0x41 | 0x42 => spots.extend((start + 1..end).map(|at| (at, Spot::Number))),
            // Loads and stores: where, behind how it is aligned.
            0x28..=0x3e => spots.extend((start + 2..end).map(|at| (at, Spot::Number))),
            code => {
                let alike = ALIKE
                    .iter()
                    .find(|(first, count)| (*first..first + count).contains(&code));
                spots.extend(alike.map(|(first, count)| (start, Spot::Operator(*first, *count))));
            }
        }
    }
    spots
}

/// Another program of the same shape.
fn bent(wasm: &[u8], random: &mut Random) -> Vec<u8> {
    let mut wasm = wasm.to_vec();
    let spots = soft_spots(&wasm);
    for _ in 0..=random.below(8) {
        let Some((at, spot)) = pick(&spots, random) else {
            break;
        };
        let byte = random.next() as u8;
        wasm[*at] = match spot {
            Spot::Byte => byte,
            Spot::Number => (wasm[*at] & 0x80) | (byte & 0x7f),
            Spot::Operator(first, count) => first + byte % count,
        };
    }
    wasm
}

/// What may be no WebAssembly at all any more.
fn broken(wasm: &[u8], others: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut wasm = wasm.to_vec();
    let sections = sections(&wasm);
    let Some(range) = pick(&sections, random) else {
        return wasm;
    };
    let at = range.start + random.below(range.len() as u64) as usize;
    match random.below(6) {
        0 => wasm[at] ^= 1 << random.below(8),
        1 => wasm[at] = random.next() as u8,
        2 => overwrite(&mut wasm, at, NUMBERS[random.below(6) as usize]),
        // As much of the same component, or of another one.
        3 => {
            let from = pick(&sections, random).cloned().unwrap_or_default();
            let copied = wasm[from].to_vec();
            overwrite(&mut wasm, at, &copied);
        }
        4 => {
            let other = pick(others, random).map_or(&[][..], |other| other);
            let from = pick(&self::sections(other), random).cloned();
            overwrite(&mut wasm, at, &other[from.unwrap_or_default()]);
        }
        _ => {
            let end = at + random.below((range.end - at) as u64 + 1) as usize;
            wasm[at..end].reverse();
        }
    }
    wasm
}

fn pick<'a, T>(all: &'a [T], random: &mut Random) -> Option<&'a T> {
    match all.len() {
        0 => None,
        count => all.get(random.below(count as u64) as usize),
    }
}

/// Of the same length, or what comes after would be harmed as well.
fn overwrite(wasm: &mut [u8], at: usize, bytes: &[u8]) {
    let length = bytes.len().min(wasm.len() - at);
    wasm[at..at + length].copy_from_slice(&bytes[..length]);
}

/// What comes of a component, without what differs from case to case.
async fn outcome(sandbox: &Sandbox, wasm: &[u8]) -> &'static str {
    let error = match sandbox.load(wasm).await {
        Ok(component) => match sandbox.list(&component).await {
            Ok(_) => return "listed",
            Err(error) => error,
        },
        Err(error) => error,
    };
    assert!(!error.to_string().is_empty());
    match error {
        LoadError::NotWasm | LoadError::CoreModule => "no component",
        LoadError::World(_) => "of another world",
        LoadError::Demands(_) => "wants too much",
        LoadError::Contract(_) => "not to the contract",
        LoadError::Listing(_) | LoadError::ListingTime(_) => "can't be listed",
        LoadError::Compiler(what) => panic!("the compiler failed: {what}"),
        _ => "invalid",
    }
}

#[tokio::test]
async fn components_harmed_inside_are_loaded_or_refused_and_never_a_crash() {
    let rounds = match std::env::var_os("LONGSHORE_LONG") {
        Some(_) => 40,
        None => 1,
    };
    let whole = whole().await;
    let mut random = Random::seeded();
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..rounds {
        // The code of a round is deleted with it.
        let dir = tempfile::tempdir().unwrap();
        // A crash is this process's own, and seen at once.
        let sandbox = Sandbox::with_compiler(limits(), dir.path(), Compiler::InProcess).unwrap();
        for _ in 0..CASES_IN_A_ROUND {
            let one = &whole[random.below(whole.len() as u64) as usize];
            let wasm = match random.one_in(3) {
                true => broken(one, &whole, &mut random),
                false => bent(one, &mut random),
            };
            *outcomes.entry(outcome(&sandbox, &wasm).await).or_default() += 1;
        }
    }
    println!("{rounds} times {CASES_IN_A_ROUND} harmed components: {outcomes:?}");
    let listed = outcomes.get("listed").copied().unwrap_or_default();
    assert!(
        listed > 0 && listed < rounds * CASES_IN_A_ROUND,
        "{outcomes:?}"
    );
}
