// What /api2 refuses, /api/v1 refuses: every operation of every kind, for users that lack one privilege, or have one.
// Generated from the declarations: kinds and their verbs, fixed routes, keys of a VM's configuration, privileges.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { v1Kinds } from "@gpve/contracts/v1/kinds.ts";
import { verbsOf } from "@gpve/contracts/v1/kind.ts";
import { fixedRoutes } from "@gpve/contracts/v1/routes.ts";
import { PRIVILEGES } from "@gpve/domain/access/builtin-roles.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { vmKeySchemas } from "@gpve/domain/vm/config/keys.ts";
import { FaceComparison } from "../testing/face-comparison.ts";
import type { Scenario } from "../testing/permission-requests.ts";
import { equivalents } from "../testing/permission-scenarios.ts";
import { openTwoFaces, type TwoFaces } from "../testing/two-faces.ts";

let faces: TwoFaces;
let comparison: FaceComparison;
const lacking = PRIVILEGES.map(
  (name) => [`no-${name}@pve`, PRIVILEGES.filter((each) => each !== name)] as const,
);
const having = PRIVILEGES.map((name) => [`only-${name}@pve`, [name]] as const);
const users: readonly (readonly [string, readonly string[]])[] = [
  ["none@pve", []],
  ["every@pve", PRIVILEGES],
  ...lacking,
  ...having,
];
const askers = users.map(([authid, privileges]) => ({
  authid,
  holds: (privilege: string) => privileges.includes(privilege),
}));

/** A valid value that VM 100 does not have; the others follow from the schema. */
const SAMPLES: Readonly<Record<string, string>> = {
  affinity: "0",
  agent: "0",
  "amd-sev": "std",
  audio0: "device=AC97",
  boot: "order=ide2",
  bootdisk: "scsi0",
  cdrom: "none",
  cicustom: "user=local:snippets/a.yml",
  cpu: "host",
  efidisk0: "local:1",
  hookscript: "local:snippets/a.sh",
  "hostpci[n]": "0000:01:00.0",
  hotplug: "disk",
  "ide[n]": "none,media=cdrom",
  "intel-tdx": "type=tdx,attestation=0",
  "ipconfig[n]": "ip=dhcp",
  ivshmem: "size=32",
  machine: "q35",
  memory: "128",
  "net[n]": "virtio,bridge=vmbr0",
  "numa[n]": "cpus=0,memory=64",
  onboot: "0",
  "parallel[n]": "/dev/parport0",
  rng0: "source=/dev/urandom",
  "sata[n]": "none,media=cdrom",
  "scsi[n]": "local:1",
  "serial[n]": "socket",
  smbios1: "uuid=00000000-0000-0000-0000-000000000001",
  spice_enhancements: "foldersharing=1",
  sshkeys: encodeURIComponent(`ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI${"A".repeat(43)} x`),
  startdate: "now",
  startup: "order=1",
  tpmstate0: "local:1",
  "usb[n]": "spice",
  vga: "qxl",
  "unused[n]": "local:100/vm-100-disk-9.qcow2",
  "virtio[n]": "local:1",
  "virtiofs[n]": "share1",
  vmgenid: "1",
  vmstatestorage: "local",
  watchdog: "i6300esb",
};

beforeAll(async () => {
  faces = await openTwoFaces();
  comparison = new FaceComparison(faces);
  for (const [name, privileges] of users) await faces.addUser(name, privileges);
});
afterAll(async () => {
  await faces.close();
  process.stdout.write(
    `permission comparison: ${comparison.combinations} combinations of operation and user, on both faces\n`,
  );
});

const operations = [
  ...v1Kinds.flatMap((kind) => verbsOf(kind).map((verb) => `${kind.kind} ${verb}`)),
  ...v1Kinds
    .filter(({ applyOrder }) => applyOrder !== undefined)
    .flatMap(({ kind }) => [`${kind} apply`, `${kind} plan`]),
  ...fixedRoutes.map(({ operationId }) => operationId).filter((id) => id !== "plan" && id !== "apply"),
];

describe("/api/v1 refuses what /api2 refuses", () => {
  test("every operation has its equivalent", () => {
    expect(operations.filter((operation) => !equivalents.has(operation))).toEqual([]);
    expect([...equivalents.keys()].filter((key) => !operations.includes(key))).toEqual([]);
  });

  const compared = [...equivalents].flatMap(([operation, list]) =>
    "own" in list ? [] : list.map((scenario) => [`${operation}: ${scenario.what}`, scenario] as const),
  );

  test.each(compared)("%s", async (_name, scenario) => {
    // A comparison of two refusals shows nothing: somebody must get through, and somebody must not.
    expect(await comparison.refused("every@pve", scenario.v1)).toBe(false);
    for (const request of scenario.api2) expect(await comparison.refused("every@pve", request)).toBe(false);
    expect(await comparison.differences(scenario, askers)).toEqual([]);
  });

  const settable = methodByKey("PUT /nodes/{node}/qemu/{vmid}/config")?.parameters ?? {};
  const keys = Object.keys(vmKeySchemas).filter((key) => Object.hasOwn(settable, key));
  const about = /^(none|every)@|^no-(VM|Datastore|SDN|Mapping|Sys)\.|^only-VM\.(Audit|PowerMgmt)@/;

  test.each(keys)("a VM's key %s", async (kind) => {
    const key = kind.replace("[n]", "1");
    const text = SAMPLES[kind] ?? sampleOf(kind);
    const config = "/api2/json/nodes/n1/qemu/100/config";
    const scenario: Scenario = {
      what: key,
      v1: {
        method: "PATCH",
        path: "/api/v1/virtualmachines/100",
        body: { spec: { config: { [key]: text } } },
      },
      api2: [{ method: "PUT", path: config, body: { [key]: text } }],
      v1Needs: ["VM.Audit"],
    };
    for (const request of [scenario.v1, ...scenario.api2]) {
      const { status, text: why } = await faces.ask("root@pam", request.method, request.path, request.body);
      expect(status, `${key}: ${text}: ${why}`).toBe(200);
      await faces.reset();
    }
    expect(
      await comparison.differences(
        scenario,
        askers.filter(({ authid }) => about.test(authid)),
      ),
    ).toEqual([]);
  });
});

function sampleOf(key: string): string {
  const schema = vmKeySchemas[key];
  if (schema?.enum !== undefined && schema.enum !== null) return String(schema.enum[0]);
  if (schema?.type === "boolean") return "1";
  if (schema?.type === "integer" || schema?.type === "number") return String(schema.minimum ?? 1);
  return "x";
}
