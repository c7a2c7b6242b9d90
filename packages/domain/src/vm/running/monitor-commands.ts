// Who may run which command of QEMU's human monitor. A command without a row is root's alone, so that those of a QEMU to
// come are not everybody's by accident.

export type MonitorRight = "everybody" | "Sys.Modify" | "root";

const EVERYBODY = ["?", "help", "info"];

/** They change the guest, but reach no file and no port of the host. */
const SYS_MODIFY = [
  ..."announce_self backup_cancel balloon block_job_cancel block_job_complete block_job_pause".split(" "),
  ..."block_job_resume block_job_set_speed block_resize block_set_io_throttle boot_set c calc_dirty_rate".split(
    " ",
  ),
  ..."cancel_vcpu_dirty_limit chardev-send-break closefd commit cont cpu delvm eject exit_preconfig".split(
    " ",
  ),
  ..."expire_password getfd gpa2hpa gpa2hva gva2gpa i loadvm log migrate_cancel migrate_continue".split(" "),
  ..."migrate_pause migrate_set_capability migrate_set_parameter migrate_start_postcopy mouse_button".split(
    " ",
  ),
  ..."mouse_move mouse_set one-insn-per-tb p print q qemu-io qom-get qom-list quit replay_break".split(" "),
  ..."replay_delete_break replay_seek ringbuf_read ringbuf_write s savevm sendkey set_link".split(" "),
  ..."set_password set_vcpu_dirty_limit snapshot_blkdev_internal snapshot_delete_blkdev_internal stop".split(
    " ",
  ),
  ..."stopcapture sum sync-profile system_powerdown system_reset system_wakeup trace-event x".split(" "),
  ..."x_colo_lost_heartbeat xp".split(" "),
];

/** They reach files, ports or devices of the host. */
const ROOT = [
  ..."backup block_stream change chardev-add chardev-change chardev-remove client_migrate_info".split(" "),
  ..."device_add device_del drive_add drive_backup drive_del drive_mirror dump-guest-memory dumpdtb".split(
    " ",
  ),
  ..."gdbserver hostfwd_add hostfwd_remove logfile mce memsave migrate migrate_incoming".split(" "),
  ..."migrate_recover nbd_server_add nbd_server_remove nbd_server_start nbd_server_stop netdev_add".split(
    " ",
  ),
  ..."netdev_del nmi o object_add object_del pcie_aer_inject_error pmemsave qom-set savevm-end".split(" "),
  ..."savevm-start screendump snapshot_blkdev watchdog_action wavcapture xen-event-inject".split(" "),
  "xen-event-list",
];

const RIGHTS: ReadonlyMap<string, MonitorRight> = new Map([
  ...EVERYBODY.map((name) => [name, "everybody"] as const),
  ...SYS_MODIFY.map((name) => [name, "Sys.Modify"] as const),
  ...ROOT.map((name) => [name, "root"] as const),
]);

/** undefined = nobody knows what it does. */
export function monitorRight(command: string): MonitorRight | undefined {
  return RIGHTS.get(command);
}
