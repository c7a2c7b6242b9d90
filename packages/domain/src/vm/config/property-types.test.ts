import { describe, expect, it } from "vitest";
import { propertyFormatOf } from "../../schema/check.ts";
import { vmKeySchemas } from "./keys.ts";
import type { VmPropertyTypes } from "./property-types.ts";

type Keys = { readonly [K in keyof VmPropertyTypes]: Readonly<Record<keyof VmPropertyTypes[K], true>> };

const drive: Keys["scsi"] = {
  file: true,
  aio: true,
  backup: true,
  bps_max_length: true,
  bps_rd_max_length: true,
  bps_wr_max_length: true,
  cache: true,
  detect_zeroes: true,
  discard: true,
  efitype: true,
  format: true,
  "import-from": true,
  iops: true,
  iops_max: true,
  iops_max_length: true,
  iops_rd: true,
  iops_rd_max: true,
  iops_rd_max_length: true,
  iops_wr: true,
  iops_wr_max: true,
  iops_wr_max_length: true,
  iothread: true,
  mbps: true,
  mbps_max: true,
  mbps_rd: true,
  mbps_rd_max: true,
  mbps_wr: true,
  mbps_wr_max: true,
  media: true,
  model: true,
  "ms-cert": true,
  "pre-enrolled-keys": true,
  product: true,
  queues: true,
  replicate: true,
  rerror: true,
  ro: true,
  scsiblock: true,
  serial: true,
  shared: true,
  size: true,
  snapshot: true,
  ssd: true,
  vendor: true,
  version: true,
  werror: true,
  wwn: true,
};
const machine: Keys["machine"] = {
  type: true,
  "aw-bits": true,
  "enable-s3": true,
  "enable-s4": true,
  viommu: true,
};

// The compiler holds this against the types, the tests against PVE's schema.
const keys: Keys = {
  agent: { enabled: true, "freeze-fs": true, fstrim_cloned_disks: true, type: true },
  "amd-sev": {
    type: true,
    "allow-smt": true,
    "kernel-hashes": true,
    "no-debug": true,
    "no-key-sharing": true,
  },
  audio0: { device: true, driver: true },
  boot: { legacy: true, order: true },
  cicustom: { meta: true, network: true, user: true, vendor: true },
  cpu: {
    cputype: true,
    flags: true,
    "guest-phys-bits": true,
    hidden: true,
    "hv-vendor-id": true,
    level: true,
    "phys-bits": true,
    "reported-model": true,
  },
  efidisk0: drive,
  hostpci: {
    host: true,
    mapping: true,
    "device-id": true,
    driver: true,
    "legacy-igd": true,
    mdev: true,
    pcie: true,
    rombar: true,
    romfile: true,
    "sub-device-id": true,
    "sub-vendor-id": true,
    "vendor-id": true,
    "x-vga": true,
  },
  ide: drive,
  "intel-tdx": { type: true, attestation: true, "vsock-cid": true, "vsock-port": true },
  ipconfig: { gw: true, gw6: true, ip: true, ip6: true },
  ivshmem: { name: true, size: true },
  machine,
  memory: { current: true },
  meta: { "creation-qemu": true, ctime: true },
  net: {
    model: true,
    macaddr: true,
    bridge: true,
    firewall: true,
    "host-tunnel": true,
    link_down: true,
    mtu: true,
    queues: true,
    rate: true,
    tag: true,
    trunks: true,
  },
  numaN: { cpus: true, hostnodes: true, memory: true, policy: true },
  rng0: { source: true, max_bytes: true, period: true },
  runningmachine: machine,
  sata: drive,
  scsi: drive,
  smbios1: {
    base64: true,
    family: true,
    manufacturer: true,
    product: true,
    serial: true,
    sku: true,
    uuid: true,
    version: true,
  },
  spice_enhancements: { foldersharing: true, videostreaming: true },
  tpmstate0: drive,
  unused: { file: true },
  usb: { host: true, mapping: true, usb3: true },
  vga: { type: true, clipboard: true, memory: true },
  virtio: drive,
  virtiofs: { dirid: true, cache: true, "direct-io": true, "expose-acl": true, "expose-xattr": true },
  watchdog: { model: true, action: true },
};

// Kept in megabytes: see drive.ts.
const CONVERTED = new Set(["bps", "bps_rd", "bps_wr"]);

function schemaKeys(kind: string): string[] {
  const schema =
    kind === "numaN" ? vmKeySchemas["numa[n]"] : (vmKeySchemas[`${kind}[n]`] ?? vmKeySchemas[kind]);
  return Object.entries(propertyFormatOf(schema?.format) ?? {})
    .filter(([key, rule]) => rule.alias === undefined && !CONVERTED.has(key))
    .map(([key]) => key)
    .sort();
}

describe("the types of property strings", () => {
  it.each(Object.entries(keys))("know every key of %s", (kind, typed) => {
    const known = Object.keys(typed).sort();
    if (known.length === Object.keys(drive).length)
      expect(known).toEqual(expect.arrayContaining(schemaKeys(kind)));
    else expect(known).toEqual(schemaKeys(kind));
  });

  it("cover every key that is a property string", () => {
    const missing = Object.entries(vmKeySchemas)
      .filter(([, schema]) => propertyFormatOf(schema.format) !== undefined)
      .map(([key]) => (key === "numa[n]" ? "numaN" : key.replace("[n]", "")))
      .filter((kind) => kind !== "cdrom" && !Object.hasOwn(keys, kind));
    expect(missing).toEqual([]);
  });
});
