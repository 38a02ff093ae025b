//! The reader against a table of nasty files, and against the `csv` crate on random ones.

use super::*;

/// Hands out a few bytes at a time, so that every record crosses the end of what was read.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.1.min(buffer.len()).min(self.0.len());
        let (now, later) = self.0.split_at(length);
        buffer[..length].copy_from_slice(now);
        self.0 = later;
        Ok(length)
    }
}

type Rows = Vec<Vec<Vec<u8>>>;

fn read_from(
    text: &[u8],
    position: Position,
    step: usize,
) -> Result<(Rows, Vec<Position>, Vec<u64>), CsvError> {
    let source = Trickle(&text[position.offset as usize..], step);
    let mut reader = RecordReader::new(source, position, b',');
    let (mut rows, mut boundaries, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(record) = reader.next()? {
        rows.push(record.fields().map(<[u8]>::to_vec).collect());
        boundaries.push(reader.position());
        lines.push(reader.record_start().line);
    }
    Ok((rows, boundaries, lines))
}

fn rows_of(text: &str, step: usize) -> Vec<Vec<String>> {
    let (rows, _, _) = read_from(text.as_bytes(), Position::START, step).unwrap();
    rows.into_iter()
        .map(|row| {
            row.into_iter()
                .map(|field| String::from_utf8(field).unwrap())
                .collect()
        })
        .collect()
}

const NASTY: &[(&str, &[&[&str]])] = &[
    ("", &[]),
    ("\n\r\n\n", &[]),
    ("\u{feff}", &[]),
    ("\u{feff}a,b\n1,2", &[&["a", "b"], &["1", "2"]]),
    ("a,b\r\n1,2\r\n", &[&["a", "b"], &["1", "2"]]),
    ("a,b\r1,2\r", &[&["a", "b"], &["1", "2"]]),
    ("\n\na,b\n\n\n1,2\n\n", &[&["a", "b"], &["1", "2"]]),
    ("\u{feff}\"a\",b\n", &[&["a", "b"]]),
    (
        "a,\"b\nc\r\nd\",e\nf,g,h",
        &[&["a", "b\nc\r\nd", "e"], &["f", "g", "h"]],
    ),
    ("\"say \"\"hi\"\"\",2\n", &[&["say \"hi\"", "2"]]),
    ("a,\"\",\n,,\n", &[&["a", "", ""], &["", "", ""]]),
    ("\"a,b\",c\n", &[&["a,b", "c"]]),
    ("a\n\"b\"", &[&["a"], &["b"]]),
    (
        "1,2,3\n4\n5,6,7,8\n",
        &[&["1", "2", "3"], &["4"], &["5", "6", "7", "8"]],
    ),
    ("in\"ner,x\n", &[&["in\"ner", "x"]]),
    ("\"a\"tail,x\n", &[&["atail", "x"]]),
    (" a , b \n", &[&[" a ", " b "]]),
    ("a\n\u{feff}b\n", &[&["a"], &["\u{feff}b"]]),
    ("é,ü,漢字漢字漢字\n", &[&["é", "ü", "漢字漢字漢字"]]),
];

#[test]
fn nasty_files_are_read_alike_however_they_arrive() {
    for (text, expected) in NASTY {
        for step in [1, 2, 3, 7, 64, 100_000] {
            assert_eq!(
                rows_of(text, step),
                *expected,
                "{text:?} in steps of {step}"
            );
        }
    }
}

#[test]
fn a_reader_that_starts_at_a_boundary_reads_the_rest() {
    for (text, _) in NASTY {
        let (rows, boundaries, lines) = read_from(text.as_bytes(), Position::START, 5).unwrap();
        for (read, &boundary) in boundaries.iter().enumerate() {
            let (rest, _, rest_lines) = read_from(text.as_bytes(), boundary, 5).unwrap();
            assert_eq!(rest, rows[read + 1..], "{text:?} after {read}");
            assert_eq!(rest_lines, lines[read + 1..], "{text:?} after {read}");
        }
    }
}

#[test]
fn records_know_the_line_they_start_on() {
    let text = "h\r\n\r\na,\"x\ny\"\r\nb\r\n";
    let (_, boundaries, lines) = read_from(text.as_bytes(), Position::START, 3).unwrap();
    assert_eq!(lines, [1, 3, 5]);
    assert!(boundaries.last().unwrap().offset <= text.len() as u64);
}

#[test]
fn random_files_are_read_as_the_csv_crate_reads_them() {
    let alphabet: &[&str] = &[
        "a",
        "bc",
        ",",
        ",",
        "\n",
        "\r\n",
        "\"",
        "\"\"",
        "\r",
        "longer text",
        "é",
        "0.5",
    ];
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    for round in 0..4000 {
        let mut text = String::new();
        for _ in 0..round % 60 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            text.push_str(alphabet[(seed % alphabet.len() as u64) as usize]);
        }
        let mut reference = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(text.as_bytes());
        let expected: Rows = reference
            .byte_records()
            .map(|record| record.unwrap().iter().map(<[u8]>::to_vec).collect())
            .collect();
        match read_from(text.as_bytes(), Position::START, round % 13 + 1) {
            Ok((rows, ..)) => assert_eq!(rows, expected, "{text:?}"),
            Err(CsvError::UnclosedQuote { .. }) => {}
            Err(error) => panic!("{text:?}: {error}"),
        }
    }
}

#[test]
fn a_quote_that_is_never_closed_is_an_error_with_its_line() {
    for text in ["a\nb\nc,\"d\ne\n", "a\nb\n\"", "a\nb\nx,\"\"\"\n"] {
        let error = read_from(text.as_bytes(), Position::START, 4).unwrap_err();
        assert!(
            matches!(error, CsvError::UnclosedQuote { line: 3 }),
            "{text:?}: {error}"
        );
    }
}

#[test]
fn a_record_without_end_is_refused_before_it_fills_the_memory() {
    struct Endless;
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            buffer.fill(b'x');
            Ok(buffer.len())
        }
    }
    for start in [&b"a\n\"b"[..], b"a\nb"] {
        let mut reader = RecordReader::new(start.chain(Endless), Position::START, b',');
        reader.next().unwrap();
        let error = reader.next().err().unwrap();
        assert!(
            matches!(error, CsvError::RecordTooLong { line: 2 }),
            "{error}"
        );
        assert!(reader.unquoted.len() <= RECORD_MAX_BYTES + 1);
    }
}

#[test]
fn the_limits_are_reached_exactly() {
    let wide = |fields: usize| ["1"].repeat(fields).join(",");
    for quoted in ["", "\"q\""] {
        let fits = format!("{quoted}{}\n", wide(FIELDS_MAX));
        let (rows, ..) = read_from(fits.as_bytes(), Position::START, 1 << 20).unwrap();
        assert_eq!(rows[0].len(), FIELDS_MAX);
        let over = format!("{quoted}{}\n", wide(FIELDS_MAX + 1));
        let error = read_from(over.as_bytes(), Position::START, 1 << 20).unwrap_err();
        assert!(
            matches!(error, CsvError::TooManyFields { line: 1 }),
            "{error}"
        );
    }
    let long = format!("{}\nnext\n", "x".repeat(RECORD_MAX_BYTES - 1));
    let (rows, ..) = read_from(long.as_bytes(), Position::START, 1 << 20).unwrap();
    assert_eq!((rows[0][0].len(), rows.len()), (RECORD_MAX_BYTES - 1, 2));
}

#[test]
fn utf_16_is_named() {
    for text in [&b"\xff\xfea\0"[..], b"\xfe\xff\0a"] {
        assert!(matches!(
            read_from(text, Position::START, 1),
            Err(CsvError::Utf16)
        ));
    }
}
