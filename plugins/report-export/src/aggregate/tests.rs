//! Grouping, its limits, and groups that are saved and read again.

use super::*;
use crate::csv::{Position, RecordReader};

fn columns() -> Columns {
    let measured = |index, name: &str| MeasuredColumn {
        index,
        name: name.into(),
    };
    Columns {
        group_by: vec![0, 1],
        measures: vec![measured(2, "n"), measured(3, "m")],
    }
}

fn add_all(groups: &mut Groups, text: &str, policy: NotNumbers) -> Result<(), AggregateError> {
    let mut reader = RecordReader::new(text.as_bytes(), Position::START, b',');
    while let Some(record) = reader.next().unwrap() {
        groups.add(&record, &columns(), policy)?;
    }
    Ok(())
}

#[test]
fn rows_are_grouped_by_whole_fields_and_sorted_by_their_bytes() {
    let mut groups = Groups::new(2);
    let text = "b,c,1,2\na,bc,1,2\nab,c,1,2.50\na,bc,3,\n,,9,9\n";
    add_all(&mut groups, text, NotNumbers::Stop).unwrap();
    assert_eq!(groups.decimals(), [0, 2]);
    let sorted = groups.into_sorted();
    let keys: Vec<String> = sorted
        .iter()
        .map(|group| String::from_utf8(group.fields.join(&b'|')).unwrap())
        .collect();
    assert_eq!(keys, ["|", "a|bc", "ab|c", "b|c"]);
    assert_eq!(sorted[1].rows, 2);
    assert_eq!(sorted[1].cells[0].sum, 4 * 10i128.pow(18));
    assert_eq!(
        (sorted[1].cells[0].min, sorted[1].cells[0].max),
        (10i128.pow(18), 3 * 10i128.pow(18))
    );
    assert_eq!(sorted[1].cells[1].count, 1, "an empty field is no value");
}

#[test]
fn a_value_that_is_no_number_stops_or_is_counted() {
    let mut groups = Groups::new(2);
    let error = add_all(&mut groups, "a,b,1,n/a\n", NotNumbers::Stop).unwrap_err();
    assert!(
        error
            .to_string()
            .contains(r#""n/a" of column "m" is not a number"#),
        "{error}"
    );

    let mut groups = Groups::new(2);
    add_all(&mut groups, "a,b,1,n/a\na,b,x,2\n", NotNumbers::Skip).unwrap();
    assert_eq!(groups.values_skipped(), 2);
    let sorted = groups.into_sorted();
    assert_eq!((sorted[0].cells[0].count, sorted[0].cells[1].count), (1, 1));
}

#[test]
fn the_number_of_groups_is_limited() {
    let columns = Columns {
        group_by: vec![0],
        measures: vec![],
    };
    let mut groups = Groups::new(0);
    let text: String = (0..=GROUPS_MAX).map(|index| format!("{index}\n")).collect();
    let mut reader = RecordReader::new(text.as_bytes(), Position::START, b',');
    let mut result = Ok(());
    while let Some(record) = reader.next().unwrap() {
        result = groups.add(&record, &columns, NotNumbers::Stop);
    }
    assert_eq!(result, Err(AggregateError::TooManyGroups));
    assert_eq!(groups.len(), GROUPS_MAX);
}

#[test]
fn the_worst_groups_still_fit_a_checkpoint() {
    let mut groups = Groups::new(2);
    let extreme = "99999999999999999999";
    let text: String = (0..20_000)
        .map(|row| format!("{row:0200},b,{extreme},-{extreme}\n"))
        .collect();
    let error = add_all(&mut groups, &text, NotNumbers::Stop).unwrap_err();
    let made = groups.len();
    assert_eq!(error, AggregateError::GroupsTooLarge { groups: made });
    assert!(made > 9_000);
    assert!(postcard::to_allocvec(&groups).unwrap().len() <= GROUPS_MAX_BYTES + 64);
}

#[test]
fn saved_groups_go_on_as_if_never_saved() {
    let (first, second) = ("a,b,1,2.5\nc,d,-7,n/a\n", "a,b,5,0.125\ne,f,,\n");
    let mut whole = Groups::new(2);
    add_all(&mut whole, first, NotNumbers::Skip).unwrap();
    let saved = postcard::to_allocvec(&whole).unwrap();
    add_all(&mut whole, second, NotNumbers::Skip).unwrap();

    let mut resumed: Groups = postcard::from_bytes(&saved).unwrap();
    assert!(resumed.fits(2, 2) && !resumed.fits(3, 2) && !resumed.fits(2, 1));
    add_all(&mut resumed, second, NotNumbers::Skip).unwrap();
    assert_eq!(resumed.decimals(), whole.decimals());
    assert_eq!(resumed.values_skipped(), whole.values_skipped());
    assert_eq!(resumed.into_sorted(), whole.into_sorted());
}

#[test]
fn a_sum_that_does_not_fit_says_so() {
    let mut groups = Groups::new(2);
    let text = "a,b,99999999999999999999,\n".repeat(2);
    let error = add_all(&mut groups, &text, NotNumbers::Stop).unwrap_err();
    assert_eq!(error, AggregateError::SumTooLarge { column: "n".into() });
}
