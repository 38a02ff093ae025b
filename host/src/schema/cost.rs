//! What checking a value against a schema can cost at most. A few lines of `allOf` and `$ref` ask a
//! validator for work that doubles with every line, or with every level of the value; a guest writes
//! the schema and may write the value too (I6).

use serde_json::Value;

use super::graph::{Graph, Node, shown};
use super::{Mismatch, SchemaError};

/// What checking one value may cost, in single evaluations of a subschema. They take tens of
/// nanoseconds, so this is about a second at the very worst.
const WORK_MAX: u64 = 30_000_000;

/// Subschemas that may be entered at once while a value is checked; each takes some stack.
const HEIGHT_MAX: u64 = 1_024;

/// How deep a value may nest: what the JSON reader takes.
const VALUE_DEPTH_MAX: usize = 128;

/// `unevaluatedProperties` and `unevaluatedItems` ask the subschemas beside them once more, and
/// once more for what to report.
const UNEVALUATED_REPEATS: u64 = 3;

/// What checking one place and what is below it can cost, along one way down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    work: u64,
    height: u64,
}

/// The cost by the depth of the value.
pub(super) struct Costs {
    by_depth: Vec<Cost>,
    /// Whether deeper values cost as much as the deepest here; else they cost too much.
    is_settled: bool,
}

impl Costs {
    /// What a value can cost at most, by its depth.
    pub(super) fn of(graph: &Graph<'_>) -> Result<Costs, SchemaError> {
        let order = order(graph)?;
        let mut below = vec![Cost::default(); graph.nodes.len()];
        let mut costs = Costs {
            by_depth: Vec::new(),
            is_settled: false,
        };
        for _ in 0..=VALUE_DEPTH_MAX {
            let mut here = below.clone();
            for &index in &order {
                here[index] = graph.nodes[index].cost(&here, &below);
            }
            let root = here[0];
            if root.work > WORK_MAX || root.height > HEIGHT_MAX {
                break;
            }
            costs.is_settled = here == below;
            costs.by_depth.push(root);
            if costs.is_settled {
                break;
            }
            below = here;
        }
        match costs.by_depth.is_empty() {
            true => Err(SchemaError(
                "/: the schema asks for too much work; use fewer nested `allOf`, `anyOf`, `oneOf` \
                 and `$ref`"
                    .to_owned(),
            )),
            false => Ok(costs),
        }
    }

    /// Refuses a value that would take too long to check.
    pub(super) fn check(&self, value: &Value) -> Result<(), Mismatch> {
        let deepest = self.by_depth.len().saturating_sub(1);
        let depth = depth(value);
        let cost = match self.is_settled {
            true => self.by_depth.get(depth.min(deepest)),
            false => self.by_depth.get(depth),
        };
        let refuse = |what: &str| Err(Mismatch(vec![format!("/: {what} for this schema")]));
        match cost {
            None => refuse("the value nests too deeply"),
            Some(cost) if cost.work.saturating_mul(count(value)) > WORK_MAX => {
                refuse("the value has too many parts")
            }
            Some(_) => Ok(()),
        }
    }
}

impl Node<'_> {
    /// Its cost, from the costs of what applies to the same place and of what applies below.
    fn cost(&self, here: &[Cost], below: &[Cost]) -> Cost {
        let repeats = match self.has("unevaluatedProperties") || self.has("unevaluatedItems") {
            true => UNEVALUATED_REPEATS,
            false => 1,
        };
        let mut cost = Cost {
            work: self.own_work(),
            height: 0,
        };
        for &index in &self.same {
            let work = here[index].work.saturating_mul(repeats);
            cost.work = cost.work.saturating_add(work);
            cost.height = cost.height.max(here[index].height);
        }
        for &index in &self.any {
            cost.work = cost.work.saturating_add(below[index].work);
            cost.height = cost.height.max(below[index].height);
        }
        let dearest = self.members.iter().map(|&index| below[index].work).max();
        cost.work = cost.work.saturating_add(dearest.unwrap_or_default());
        let tallest = self.members.iter().map(|&index| below[index].height).max();
        cost.height = cost.height.max(tallest.unwrap_or_default()) + 1;
        cost
    }

    /// What its own keywords compare the value with.
    fn own_work(&self) -> u64 {
        let lists = ["enum", "required", "properties", "patternProperties"];
        let sizes = lists.iter().map(|keyword| {
            let value = self.keywords.and_then(|keywords| keywords.get(*keyword));
            match value {
                Some(Value::Array(items)) => items.len(),
                Some(Value::Object(members)) => members.len(),
                _ => 0,
            }
        });
        1 + sizes.sum::<usize>() as u64
    }

    fn has(&self, keyword: &str) -> bool {
        self.keywords.is_some_and(|k| k.contains_key(keyword))
    }
}

/// All nodes, each after those that apply to the same place as it does.
fn order(graph: &Graph<'_>) -> Result<Vec<usize>, SchemaError> {
    let mut order = Vec::with_capacity(graph.nodes.len());
    let mut states = vec![State::New; graph.nodes.len()];
    for index in 0..graph.nodes.len() {
        visit(graph, index, &mut states, &mut order)?;
    }
    Ok(order)
}

fn visit(
    graph: &Graph<'_>,
    index: usize,
    states: &mut [State],
    order: &mut Vec<usize>,
) -> Result<(), SchemaError> {
    match states[index] {
        State::Done => return Ok(()),
        State::Open => {
            let pointer = shown(&graph.nodes[index].pointer);
            let what = format!("{pointer}: a `$ref` leads back here without going down a level");
            return Err(SchemaError(what));
        }
        State::New => {}
    }
    states[index] = State::Open;
    for &next in &graph.nodes[index].same {
        visit(graph, next, states, order)?;
    }
    states[index] = State::Done;
    order.push(index);
    Ok(())
}

#[derive(Clone, Copy)]
enum State {
    New,
    Open,
    Done,
}

/// How deep a value nests; a scalar or an empty list is 0 deep. The reader bounds the recursion.
pub(super) fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => None,
    };
    below.map_or(0, |below| below + 1)
}

fn count(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}
