//! The host's limits, each with its unit in its name. A limit is a whole number in a range; none
//! can be turned off.

use std::ops::RangeInclusive;

use serde::Deserialize;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SECOND_MS: u64 = 1_000;
const DAY_MS: u64 = 24 * 60 * 60 * SECOND_MS;

/// `[limits]` of the configuration.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// An HTTP request's body.
    pub request_body_max_bytes: u64,
    /// From a request's first byte to its body's last.
    pub request_body_timeout_ms: u64,
    /// Connections open at once.
    pub connections_max: u64,
    /// Those of one tenant, where there are several.
    pub tenant_connections_max: u64,
    /// How long a client may leave what it is sent unread before its connection is closed.
    pub write_timeout_ms: u64,
    /// How long an `auto` tool may take before its call becomes a task.
    pub call_grace_ms: u64,
    /// Calls answered within their request, all tenants together.
    pub calls_running_max: u64,
    /// Calls of one tenant answered within their request.
    pub tenant_calls_running_max: u64,
    /// How long a call waits for one of those places before it is refused.
    pub call_wait_max_ms: u64,
    /// Calls of one tenant that wait so.
    pub tenant_calls_waiting_max: u64,
    /// How long a resource, a prompt or suggestions may take, a client's answers included.
    pub read_timeout_ms: u64,
    /// Tasks that run at once, all tenants together.
    pub tasks_running_max: u64,
    /// Tasks of one tenant that run at once.
    pub tenant_tasks_running_max: u64,
    /// Tasks of one tenant that have not ended, running or not.
    pub tasks_unfinished_max: u64,
    /// Instances that wait for an answer in memory, because their tool can't be parked.
    pub held_instances_max: u64,
    /// Such instances of one tenant.
    pub tenant_held_instances_max: u64,
    /// How long such an instance waits for the answers to a call without a task.
    pub round_hold_ms: u64,
    /// Calls of one tenant that wait so.
    pub tenant_rounds_held_max: u64,
    /// What the calls of one tenant leave with the host between rounds, because it is too large for
    /// their clients to carry.
    pub tenant_rounds_max_bytes: u64,
    /// Age at which the key that seals what clients carry is replaced.
    pub request_state_key_max_age_ms: u64,
    /// Linear memory of all of these together.
    pub held_memory_max_bytes: u64,
    /// Linear memory of one instance.
    pub memory_max_bytes: u64,
    /// A component's file.
    pub component_max_bytes: u64,
    /// How long a component is kept that neither a plugin nor an unfinished task needs.
    pub component_keep_ms: u64,
    pub compile_timeout_ms: u64,
    /// Address space of the process that compiles.
    pub compile_memory_max_bytes: u64,
    /// What a tool may return in one result.
    pub result_max_bytes: u64,
    /// What a tool may return in all; what is larger than the above is kept with the task, in parts.
    pub result_kept_max_bytes: u64,
    /// What is kept so of one tenant.
    pub tenant_results_kept_max_bytes: u64,
    /// Output kept of one run.
    pub log_max_bytes: u64,
    /// Time to live of a task whose tool names none.
    pub task_ttl_default_ms: u64,
    /// Time to live a tool may ask for.
    pub task_ttl_max_ms: u64,
    /// How long an instance waits for an answer before it is unloaded.
    pub park_after_ms: u64,
    /// How often a running task's progress and output are saved.
    pub save_interval_ms: u64,
    /// How often expired tasks are deleted.
    pub sweep_interval_ms: u64,
    /// How long a run may go on after a cancel, if its tool says nothing.
    pub cancel_grace_default_ms: u64,
    /// How long a tool may ask to go on after a cancel.
    pub cancel_grace_max_ms: u64,
    /// How often a client is told to poll, if the tool says nothing.
    pub poll_interval_default_ms: u64,
    /// How long a stopping host waits for its runs.
    pub drain_timeout_ms: u64,
    /// What a plugin may keep in its state for one tenant, if its grant says nothing: keys and
    /// values together.
    pub state_max_bytes: u64,
    /// Keys of that state.
    pub state_keys_max: u64,
    /// Below this much free disk, new tasks are refused.
    pub free_disk_min_bytes: u64,
    /// Sessions of clients with a handshake, open at once.
    pub legacy_sessions_max: u64,
    /// Sessions of one tenant.
    pub tenant_legacy_sessions_max: u64,
    /// How long such a session may go without a request or an open stream.
    pub legacy_session_idle_ms: u64,
    /// How long such a session's call goes on after its stream broke.
    pub legacy_reconnect_ms: u64,
    /// Threads that run guests.
    pub guest_threads: u64,
    /// Changes that may wait for the disk.
    pub store_queue_max: u64,
    /// Memory of the store's page cache.
    pub store_cache_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        Limits {
            request_body_max_bytes: MIB,
            request_body_timeout_ms: 10 * SECOND_MS,
            connections_max: 1_024,
            tenant_connections_max: 512,
            write_timeout_ms: 30 * SECOND_MS,
            call_grace_ms: 250,
            calls_running_max: 128,
            tenant_calls_running_max: 64,
            call_wait_max_ms: 10 * SECOND_MS,
            tenant_calls_waiting_max: 256,
            read_timeout_ms: 60 * SECOND_MS,
            tasks_running_max: 64,
            tenant_tasks_running_max: 32,
            tasks_unfinished_max: 1_000,
            held_instances_max: 64,
            tenant_held_instances_max: 32,
            round_hold_ms: 120 * SECOND_MS,
            tenant_rounds_held_max: 16,
            tenant_rounds_max_bytes: 64 * MIB,
            request_state_key_max_age_ms: DAY_MS,
            held_memory_max_bytes: GIB,
            memory_max_bytes: 64 * MIB,
            component_max_bytes: 32 * MIB,
            component_keep_ms: DAY_MS,
            compile_timeout_ms: 120 * SECOND_MS,
            compile_memory_max_bytes: 4 * GIB,
            result_max_bytes: MIB,
            result_kept_max_bytes: 64 * MIB,
            tenant_results_kept_max_bytes: GIB,
            log_max_bytes: 256 * KIB,
            task_ttl_default_ms: DAY_MS,
            task_ttl_max_ms: 30 * DAY_MS,
            park_after_ms: SECOND_MS,
            save_interval_ms: SECOND_MS,
            sweep_interval_ms: 30 * SECOND_MS,
            cancel_grace_default_ms: 30 * SECOND_MS,
            cancel_grace_max_ms: 300 * SECOND_MS,
            poll_interval_default_ms: SECOND_MS,
            drain_timeout_ms: 10 * SECOND_MS,
            state_max_bytes: MIB,
            state_keys_max: 1_000,
            free_disk_min_bytes: 256 * MIB,
            legacy_sessions_max: 256,
            tenant_legacy_sessions_max: 128,
            legacy_session_idle_ms: 300 * SECOND_MS,
            legacy_reconnect_ms: 10 * SECOND_MS,
            guest_threads: u64::try_from(threads).unwrap_or(2).clamp(2, 64),
            store_queue_max: 1_024,
            store_cache_bytes: 64 * MIB,
        }
    }
}

impl Limits {
    /// Instances alive at once: the sum of those who may hold one, and a few for asking plugins
    /// what tools they have. Derived, so that no two limits can contradict each other.
    pub fn instances_max(&self) -> u64 {
        self.calls_running_max + self.tasks_running_max + self.held_instances_max + 4
    }

    /// Finds a limit out of its range: its name and what is wrong.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        for (name, value, range) in self.ranges() {
            if !range.contains(&value) {
                let message = format!(
                    "{name} is {value}; it must be from {} to {}",
                    range.start(),
                    range.end()
                );
                return Err((name, message));
            }
        }
        if self.task_ttl_default_ms > self.task_ttl_max_ms {
            let message = format!(
                "task_ttl_default_ms is {}, more than task_ttl_max_ms, {}",
                self.task_ttl_default_ms, self.task_ttl_max_ms
            );
            return Err(("task_ttl_default_ms", message));
        }
        Ok(())
    }

    /// The upper ends keep arithmetic and allocations sane; they are not recommendations. The
    /// instances together stay below the thousand slots a 4 GiB reservation each allows.
    #[rustfmt::skip]
    fn ranges(&self) -> Vec<(&'static str, u64, RangeInclusive<u64>)> {
        vec![
            ("request_body_max_bytes", self.request_body_max_bytes, KIB..=256 * MIB),
            ("request_body_timeout_ms", self.request_body_timeout_ms, 100..=600 * SECOND_MS),
            ("connections_max", self.connections_max, 1..=65_535),
            ("tenant_connections_max", self.tenant_connections_max, 1..=65_535),
            ("write_timeout_ms", self.write_timeout_ms, 100..=3_600 * SECOND_MS),
            ("call_grace_ms", self.call_grace_ms, 0..=60 * SECOND_MS),
            ("calls_running_max", self.calls_running_max, 1..=300),
            ("tenant_calls_running_max", self.tenant_calls_running_max, 1..=300),
            ("call_wait_max_ms", self.call_wait_max_ms, 0..=600 * SECOND_MS),
            ("tenant_calls_waiting_max", self.tenant_calls_waiting_max, 0..=65_536),
            ("read_timeout_ms", self.read_timeout_ms, 10..=3_600 * SECOND_MS),
            ("tasks_running_max", self.tasks_running_max, 1..=300),
            ("tenant_tasks_running_max", self.tenant_tasks_running_max, 1..=300),
            ("tasks_unfinished_max", self.tasks_unfinished_max, 1..=1_000_000),
            ("held_instances_max", self.held_instances_max, 0..=300),
            ("tenant_held_instances_max", self.tenant_held_instances_max, 0..=300),
            ("round_hold_ms", self.round_hold_ms, 100..=600 * SECOND_MS),
            ("tenant_rounds_held_max", self.tenant_rounds_held_max, 0..=300),
            ("tenant_rounds_max_bytes", self.tenant_rounds_max_bytes, 64 * KIB..=16 * GIB),
            ("request_state_key_max_age_ms", self.request_state_key_max_age_ms, 3_600 * SECOND_MS..=365 * DAY_MS),
            ("held_memory_max_bytes", self.held_memory_max_bytes, 0..=1_024 * GIB),
            ("memory_max_bytes", self.memory_max_bytes, MIB..=4 * GIB),
            ("component_max_bytes", self.component_max_bytes, KIB..=GIB),
            ("component_keep_ms", self.component_keep_ms, SECOND_MS..=365 * DAY_MS),
            ("compile_timeout_ms", self.compile_timeout_ms, SECOND_MS..=3_600 * SECOND_MS),
            ("compile_memory_max_bytes", self.compile_memory_max_bytes, 256 * MIB..=64 * GIB),
            ("result_max_bytes", self.result_max_bytes, KIB..=64 * MIB),
            ("result_kept_max_bytes", self.result_kept_max_bytes, KIB..=256 * MIB),
            ("tenant_results_kept_max_bytes", self.tenant_results_kept_max_bytes, MIB..=1_024 * GIB),
            ("log_max_bytes", self.log_max_bytes, 0..=64 * MIB),
            ("task_ttl_default_ms", self.task_ttl_default_ms, SECOND_MS..=3_650 * DAY_MS),
            ("task_ttl_max_ms", self.task_ttl_max_ms, SECOND_MS..=3_650 * DAY_MS),
            ("park_after_ms", self.park_after_ms, 0..=DAY_MS),
            ("save_interval_ms", self.save_interval_ms, 10..=600 * SECOND_MS),
            ("sweep_interval_ms", self.sweep_interval_ms, 100..=DAY_MS),
            ("cancel_grace_default_ms", self.cancel_grace_default_ms, 0..=3_600 * SECOND_MS),
            ("cancel_grace_max_ms", self.cancel_grace_max_ms, 0..=3_600 * SECOND_MS),
            ("poll_interval_default_ms", self.poll_interval_default_ms, 100..=3_600 * SECOND_MS),
            ("drain_timeout_ms", self.drain_timeout_ms, 0..=3_600 * SECOND_MS),
            ("state_max_bytes", self.state_max_bytes, KIB..=GIB),
            ("state_keys_max", self.state_keys_max, 1..=1_000_000),
            ("free_disk_min_bytes", self.free_disk_min_bytes, MIB..=1_024 * GIB),
            ("legacy_sessions_max", self.legacy_sessions_max, 1..=65_536),
            ("tenant_legacy_sessions_max", self.tenant_legacy_sessions_max, 1..=65_536),
            ("legacy_session_idle_ms", self.legacy_session_idle_ms, 100..=DAY_MS),
            ("legacy_reconnect_ms", self.legacy_reconnect_ms, 0..=3_600 * SECOND_MS),
            ("guest_threads", self.guest_threads, 1..=256),
            ("store_queue_max", self.store_queue_max, 1..=65_536),
            ("store_cache_bytes", self.store_cache_bytes, MIB..=16 * GIB),
        ]
    }
}
