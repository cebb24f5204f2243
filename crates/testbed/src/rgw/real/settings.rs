//! The settings of an object store that is small, quick to start and talks to nobody else.

use std::path::Path;

use super::Gateway;
use super::install::Installed;

#[derive(Debug)]
pub(super) struct Ports {
    pub(super) monitor: u16,
    /// The first of fifty from which the disk's server takes what it needs.
    pub(super) disk: u16,
    pub(super) one: u16,
    pub(super) two: u16,
}

impl Ports {
    pub(super) fn of(&self, gateway: Gateway) -> u16 {
        match gateway {
            Gateway::One => self.one,
            Gateway::Two => self.two,
        }
    }
}

/// The text of `ceph.conf`.
///
/// `ms_mon_client_mode`: without keys the default, an encrypted connection, hangs. `objecter_tick_interval`: otherwise one
/// start in two waits five seconds. `public_addr`: otherwise the disk's server listens on every address of the machine.
pub(super) fn text(installed: &Installed, dir: &Path, ports: &Ports, fsid: &str) -> String {
    let (dir, lib) = (dir.display(), installed.libraries());
    let lib = lib.display();
    let Ports {
        monitor,
        disk,
        one,
        two,
    } = ports;
    let last = disk + 50;
    format!(
        "[global]
fsid = {fsid}
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
mon_host = v2:127.0.0.1:{monitor}
ms_bind_port_min = {disk}
ms_bind_port_max = {last}
ms_mon_client_mode = crc
log_file = {dir}/$name.ceph.log
admin_socket = {dir}/run/$name.asok
run_dir = {dir}/run
crash_dir = {dir}/run
mon_data = {dir}/mon
mon_data_avail_crit = 1
mon_data_avail_warn = 1
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
mon_tick_interval = 1
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pgp_num = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
osd_erasure_code_plugins = jerasure
erasure_code_dir = {lib}/ceph/erasure-code
plugin_dir = {lib}/ceph
paxos_propose_interval = 0.05
paxos_min_wait = 0.01
[osd]
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
osd_data = {dir}/osd
osd_objectstore = memstore
memstore_device_bytes = 1G
osd_class_dir = {lib}/rados-classes
osd_class_load_list = *
osd_class_default_list = *
osd_mclock_skip_benchmark = true
[client]
rgw_data = {dir}/rgw
objecter_tick_interval = 0.3
rgw_rados_pool_pg_num_min = 1
rgw_run_sync_thread = false
rgw_enable_lc_threads = false
rgw_dynamic_resharding = false
rgw_override_bucket_index_max_shards = 1
[client.one]
rgw_frontends = beast endpoint=127.0.0.1:{one}
[client.two]
rgw_frontends = beast endpoint=127.0.0.1:{two}
"
    )
}
