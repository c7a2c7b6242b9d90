// `qm`: the names, methods and positional arguments of PVE's.
import type { PveSchema } from "@gpve/contracts/pve/schema.ts";
import type { CommandGroup, ValueSource } from "../command-entry.ts";
import { guestExec } from "../own/guest-exec.ts";
import { importDisk } from "../own/import-disk.ts";
import { importGuest } from "../own/import-guest.ts";
import { qemuMonitor } from "../own/qemu-monitor.ts";
import { rescanDisks } from "../own/rescan-disks.ts";
import { changeText, makesDisks } from "../own/set-guest.ts";
import { serialTerminal } from "../own/serial-terminal.ts";
import { showCommand } from "../own/show-command.ts";
import { showStatus, unlockGuest, waitStopped } from "../own/guest-state.ts";
import { showAgentResult, showConfig, showPending, showSnapshots, showVms } from "../output/guest-texts.ts";
import { vmConfigParameters } from "./vm-config-parameters.ts";

const vmid: PveSchema = { type: "integer", minimum: 100, maximum: 999_999_999 };
const storage: PveSchema = { type: "string", format: "pve-storage-id" };
const format: PveSchema = { type: "string", enum: ["raw", "qcow2", "vmdk"], optional: true };
const flag: PveSchema = { type: "boolean", optional: true };
const text: PveSchema = { type: "string", optional: true };
const guestSecrets: Readonly<Record<string, ValueSource>> = { sshkeys: "file", cipassword: "new-password" };
const byMigration = "migration runs between agents and needs no command of its own";

export const qm: CommandGroup = {
  commands: {
    list: { call: "GET /nodes/{node}/qemu", args: [], show: showVms },
    create: { call: "POST /nodes/{node}/qemu", args: ["vmid"], from: guestSecrets },
    destroy: { call: "DELETE /nodes/{node}/qemu/{vmid}", args: ["vmid"] },
    clone: { call: "POST /nodes/{node}/qemu/{vmid}/clone", args: ["vmid", "newid"] },
    migrate: { call: "POST /nodes/{node}/qemu/{vmid}/migrate", args: ["vmid", "target"] },
    "remote-migrate": {
      call: "POST /nodes/{node}/qemu/{vmid}/remote_migrate",
      args: ["vmid", "target-vmid", "target-endpoint"],
    },
    set: {
      call: "PUT /nodes/{node}/qemu/{vmid}/config",
      args: ["vmid"],
      from: guestSecrets,
      asTask: makesDisks,
      done: changeText,
    },
    config: { call: "GET /nodes/{node}/qemu/{vmid}/config", args: ["vmid"], show: showConfig },
    pending: { call: "GET /nodes/{node}/qemu/{vmid}/pending", args: ["vmid"], show: showPending },
    showcmd: { own: showCommand, args: ["vmid"], parameters: { vmid, pretty: flag } },
    status: { own: showStatus, args: ["vmid"], parameters: { vmid, verbose: flag } },
    snapshot: { call: "POST /nodes/{node}/qemu/{vmid}/snapshot", args: ["vmid", "snapname"] },
    delsnapshot: {
      call: "DELETE /nodes/{node}/qemu/{vmid}/snapshot/{snapname}",
      args: ["vmid", "snapname"],
    },
    listsnapshot: { call: "GET /nodes/{node}/qemu/{vmid}/snapshot", args: ["vmid"], show: showSnapshots },
    rollback: {
      call: "POST /nodes/{node}/qemu/{vmid}/snapshot/{snapname}/rollback",
      args: ["vmid", "snapname"],
    },
    template: { call: "POST /nodes/{node}/qemu/{vmid}/template", args: ["vmid"] },
    start: { call: "POST /nodes/{node}/qemu/{vmid}/status/start", args: ["vmid"] },
    stop: { call: "POST /nodes/{node}/qemu/{vmid}/status/stop", args: ["vmid"] },
    reset: { call: "POST /nodes/{node}/qemu/{vmid}/status/reset", args: ["vmid"] },
    shutdown: { call: "POST /nodes/{node}/qemu/{vmid}/status/shutdown", args: ["vmid"] },
    reboot: { call: "POST /nodes/{node}/qemu/{vmid}/status/reboot", args: ["vmid"] },
    suspend: { call: "POST /nodes/{node}/qemu/{vmid}/status/suspend", args: ["vmid"] },
    resume: { call: "POST /nodes/{node}/qemu/{vmid}/status/resume", args: ["vmid"] },
    sendkey: { call: "PUT /nodes/{node}/qemu/{vmid}/sendkey", args: ["vmid", "key"] },
    wait: {
      own: waitStopped,
      args: ["vmid"],
      parameters: { vmid, timeout: { type: "integer", minimum: 1, optional: true } },
    },
    unlock: { own: unlockGuest, args: ["vmid"], parameters: { vmid } },
    importdisk: { alias: "disk import" },
    "move-disk": { alias: "disk move" },
    move_disk: { alias: "disk move" },
    rescan: { alias: "disk rescan" },
    resize: { alias: "disk resize" },
    unlink: { alias: "disk unlink" },
    disk: {
      commands: {
        import: {
          own: importDisk,
          args: ["vmid", "source", "storage"],
          parameters: { vmid, source: { type: "string" }, storage, format, "target-disk": text },
        },
        move: { call: "POST /nodes/{node}/qemu/{vmid}/move_disk", args: ["vmid", "disk", "storage"] },
        rescan: {
          own: rescanDisks,
          args: [],
          parameters: { vmid: { ...vmid, optional: true }, dryrun: flag },
        },
        resize: { call: "PUT /nodes/{node}/qemu/{vmid}/resize", args: ["vmid", "disk", "size"] },
        unlink: { call: "PUT /nodes/{node}/qemu/{vmid}/unlink", args: ["vmid"] },
      },
    },
    monitor: { own: qemuMonitor, args: ["vmid"], parameters: { vmid } },
    agent: { alias: "guest cmd" },
    guest: {
      commands: {
        cmd: {
          call: "POST /nodes/{node}/qemu/{vmid}/agent",
          args: ["vmid", "command"],
          show: showAgentResult,
        },
        passwd: {
          call: "POST /nodes/{node}/qemu/{vmid}/agent/set-user-password",
          args: ["vmid", "username"],
          from: { password: "new-password" },
        },
        exec: {
          own: guestExec,
          args: ["vmid", "extra-args"],
          isList: true,
          parameters: {
            vmid,
            synchronous: flag,
            timeout: { type: "integer", minimum: 0, optional: true },
            "pass-stdin": flag,
            "extra-args": { type: "array", items: { type: "string" }, optional: true },
          },
          show: showAgentResult,
        },
        "exec-status": {
          call: "GET /nodes/{node}/qemu/{vmid}/agent/exec-status",
          args: ["vmid", "pid"],
          show: showAgentResult,
        },
      },
    },
    terminal: {
      own: serialTerminal,
      args: ["vmid"],
      parameters: {
        vmid,
        iface: { type: "string", enum: ["serial0", "serial1", "serial2", "serial3"], optional: true },
        escape: text,
      },
    },
    import: {
      own: importGuest,
      args: ["vmid", "source"],
      parameters: {
        ...vmConfigParameters,
        vmid,
        source: { type: "string" },
        storage,
        format,
        "live-import": flag,
        dryrun: flag,
        delete: text,
      },
    },
    cloudinit: {
      commands: {
        dump: {
          call: "GET /nodes/{node}/qemu/{vmid}/cloudinit/dump",
          args: ["vmid", "type"],
          show: (data, line) => line(String(data)),
        },
        pending: { call: "GET /nodes/{node}/qemu/{vmid}/cloudinit", args: ["vmid"], show: showPending },
        update: { call: "PUT /nodes/{node}/qemu/{vmid}/cloudinit", args: ["vmid"] },
      },
    },
    importovf: {
      refused:
        "put the OVA on a storage with content 'import' and use `qm import VMID STORAGE:import/x.ova/x.ovf`",
    },
    vncproxy: { refused: "use `gpvectl vm vnc`, which checks who connects" },
    "enroll-efi-keys": {
      refused: "new certificates come with a new EFI disk: nothing is enrolled into one that is there",
    },
    nbdstop: { refused: byMigration },
    mtunnel: { refused: byMigration },
    cleanup: { refused: "the VM's supervisor cleans up after it" },
  },
};
