//! Makes a failing plan small: delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
//! Input", TSE 2002) over the operations that are run.

use crate::plan::Plan;

/// The smallest plan that was found to fail, where `fails` runs one. `tried` is told after each run how many operations
/// are left.
pub fn reduce(plan: &Plan, fails: &dyn Fn(&Plan) -> bool, tried: &mut dyn FnMut(u64)) -> Plan {
    let mut numbers: Vec<u64> = plan.kept.iter().cloned().flatten().collect();
    let mut parts = 2;
    while numbers.len() >= 2 {
        let length = numbers.len().div_ceil(parts);
        let smaller = (0..numbers.len()).step_by(length).find_map(|start| {
            let end = (start + length).min(numbers.len());
            let rest: Vec<u64> = [&numbers[..start], &numbers[end..]].concat();
            let candidate = plan.with_kept(&rest);
            let is_failing = fails(&candidate);
            tried(if is_failing {
                rest.len()
            } else {
                numbers.len()
            } as u64);
            is_failing.then_some(rest)
        });
        match smaller {
            Some(rest) => {
                numbers = rest;
                parts = (parts - 1).max(2);
            }
            None if parts >= numbers.len() => break,
            None => parts = (parts * 2).min(numbers.len()),
        }
    }
    plan.with_kept(&numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Scenario;

    #[test]
    fn what_does_not_matter_is_left_out() {
        let plan = Plan::new(Scenario::Model, 1, 1000);
        let fails = |plan: &Plan| plan.keeps(17) && plan.keeps(400) && plan.keeps(401);
        let mut runs = 0;
        let small = reduce(&plan, &fails, &mut |_| runs += 1);
        assert_eq!(small, plan.with_kept(&[17, 400, 401]));
        assert!(runs < 400, "{runs} runs");
    }

    #[test]
    fn a_failure_of_one_operation_is_found() {
        let plan = Plan::new(Scenario::Model, 1, 64);
        let small = reduce(&plan, &|plan| plan.keeps(63), &mut |_| {});
        assert_eq!(small.kept_count(), 1);
    }
}
