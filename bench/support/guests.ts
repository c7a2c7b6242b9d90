// Guest records as a busy cluster has them, written into the store before the server starts.
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { guestCollection, guestRecord, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import { openDataDir } from "@gpve/kit/data-dir.ts";
import { openStore } from "@gpve/store/open-store.ts";
import { openRecords } from "@gpve/store/records/records.ts";

const PER_TRANSACTION = 100;

/** A data directory whose store holds that many guests, spread over nodes `node1`, `node2`, … */
export async function dataDirWithGuests(count: number, nodes: number): Promise<string> {
  const path = mkdtempSync(join(tmpdir(), "gpve-bench-"));
  const data = openDataDir(path);
  const store = await openStore({ type: "sqlite", path: data.file("server", "store.db") });
  const records = await openRecords(store, {
    prefix: "/gpve/",
    log: { error: (...what) => console.error(what) },
  });
  const guests = Array.from({ length: count }, (_, at) => guestOf(100 + at, `node${1 + (at % nodes)}`));
  for (let at = 0; at < guests.length; at += PER_TRANSACTION) {
    const batch = guests.slice(at, at + PER_TRANSACTION);
    await records.transact((tx) => {
      for (const guest of batch) tx.put(guestCollection, String(guest.vmid), guest);
    });
  }
  await records.close();
  await store.close();
  return path;
}

function guestOf(vmid: number, node: string): GuestRecord {
  const hex = (part: number): string =>
    ((vmid * 2654435761 + part * 40503) >>> 0).toString(16).padStart(8, "0");
  const id = hex(1);
  const mac = `BC:24:11:${id.slice(0, 2)}:${id.slice(2, 4)}:${id.slice(4, 6)}`.toUpperCase();
  const lines = [
    "agent: enabled=1,fstrim_cloned_disks=1",
    "boot: order=scsi0;net0",
    `cores: ${1 + (vmid % 8)}`,
    "cpu: x86-64-v2-AES",
    `description: service ${vmid % 400}, owned by team-${vmid % 37}`,
    "ide2: local-lvm:vm-" + `${vmid}-cloudinit,media=cdrom`,
    "ipconfig0: ip=dhcp",
    `memory: ${512 * (1 + (vmid % 16))}`,
    "meta: creation-qemu=9.0.2,ctime=1730000000",
    `name: app-${vmid % 400}-${vmid}`,
    `net0: virtio=${mac},bridge=vmbr0,firewall=1,tag=${100 + (vmid % 50)}`,
    "onboot: 1",
    "ostype: l26",
    "scsi0: local-lvm:vm-" + `${vmid}-disk-0,discard=on,iothread=1,size=${8 * (1 + (vmid % 8))}G,ssd=1`,
    "scsihw: virtio-scsi-single",
    `smbios1: uuid=${id}-0000-4000-8000-${hex(2)}${hex(3).slice(0, 4)}`,
    ...(vmid % 3 === 0 ? [`tags: prod;team-${vmid % 37}`] : []),
    ...(vmid % 200 === 0 ? ["template: 1"] : []),
    `vmgenid: ${hex(4)}-0000-4000-8000-${hex(5)}${hex(6).slice(0, 4)}`,
  ];
  return guestRecord({ vmid, type: "qemu", node, conf: `${lines.join("\n")}\n` });
}
