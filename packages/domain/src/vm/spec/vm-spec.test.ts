import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AppError } from "@gpve/contracts/errors.ts";
import {
  addressFields,
  cpuTypeFields,
  customFields,
  diskFields,
  networkFields,
} from "@gpve/contracts/v1/vm-spec/fields.ts";
import { propertyFormatOf } from "../../schema/check.ts";
import { vmKeySchema } from "../config/keys.ts";
import { formatQuantity, parseQuantity } from "./quantity.ts";
import { toValues } from "./spec-values.ts";
import { arbitraryConfiguration } from "./testing/arbitrary-configuration.ts";
import { arbitrarySpec } from "./testing/arbitrary-spec.ts";
import { toTypedSpec, type TypedVmSpec } from "./typed-spec.ts";

const errorsOf = (spec: TypedVmSpec): Readonly<Record<string, string>> => {
  try {
    toValues(spec);
  } catch (err) {
    return (err as AppError).errors ?? {};
  }
  return {};
};
const valuesOf = (spec: TypedVmSpec) => toValues(spec).values;

describe("a configuration as typed fields", () => {
  it("shows what has a field as one, and the rest as PVE's keys", () => {
    const values = {
      name: "web",
      cores: "4",
      cpu: "host,flags=+aes",
      cpulimit: "2.5",
      numa: "1",
      memory: "4096",
      balloon: "1024",
      scsi0: "local:100/vm-100-disk-0.qcow2,cache=writeback,iothread=1,size=32G",
      ide2: "none,media=cdrom",
      net0: "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,tag=5",
      boot: "order=ide2;scsi0;net0",
      bios: "ovmf",
      ipconfig0: "gw=192.0.2.1,ip=192.0.2.10/24",
      sshkeys: "ssh-ed25519%20AAAA%20me%0Assh-rsa%20BBBB",
      template: "1",
      startup: "order=3,up=10",
      onboot: "1",
    };
    const spec = toTypedSpec(values);
    expect(spec).toEqual({
      cpu: { cores: 4, type: "host", flags: "+aes", limit: 2.5, numa: true },
      memory: { size: "4Gi", minimum: "1Gi" },
      disks: [
        { name: "ide2", volume: "none", media: "cdrom", boot: true },
        {
          name: "scsi0",
          storage: "local",
          volume: "local:100/vm-100-disk-0.qcow2",
          size: "32Gi",
          cache: "writeback",
          iothread: true,
          boot: true,
        },
      ],
      networks: [
        {
          name: "net0",
          model: "virtio",
          macAddress: "BC:24:11:00:00:01",
          bridge: "vmbr0",
          firewall: true,
          vlan: 5,
          boot: true,
        },
      ],
      bios: { type: "ovmf" },
      cloudInit: {
        addresses: [{ name: "ipconfig0", ip: "192.0.2.10/24", gateway: "192.0.2.1" }],
        sshKeys: ["ssh-ed25519 AAAA me", "ssh-rsa BBBB"],
      },
      template: true,
      scheduling: { startOrder: 3, startDelaySeconds: 10, startOnBoot: true },
      config: { name: "web" },
    });
    expect(valuesOf(spec)).toEqual(values);
  });

  it("keeps PVE's own text beside a field that would be written differently", () => {
    const values = {
      net0: "bridge=vmbr0,rate=1.50,virtio=BC:24:11:00:00:01",
      boot: "order=net0;scsi0",
      scsi0: "local:4",
    };
    const spec = toTypedSpec(values);
    expect(spec.networks).toEqual([
      {
        name: "net0",
        model: "virtio",
        macAddress: "BC:24:11:00:00:01",
        bridge: "vmbr0",
        rate: 1.5,
        boot: true,
      },
    ]);
    expect(spec.config).toEqual({ net0: values.net0, boot: values.boot });
    expect(valuesOf(spec)).toEqual(values);
  });

  it("leaves what no field can say where it was", () => {
    const values = { scsi0: "local:4,size=8G", boot: "cdn", bootdisk: "scsi0", unused0: "local:100/x.raw" };
    expect(toTypedSpec(values)).toEqual({ config: values });
  });

  it("loses nothing of 10 000 generated configurations", () => {
    let typed = 0;
    fc.assert(
      fc.property(arbitraryConfiguration, (values) => {
        const spec = toTypedSpec(values);
        expect(valuesOf(spec)).toEqual(values);
        typed += (spec.disks?.length ?? 0) + (spec.networks?.length ?? 0);
      }),
      { numRuns: 10_000 },
    );
    // A mapping that leaves all as text would pass the rest.
    expect(typed).toBeGreaterThan(3000);
  });

  it("gives 2 500 generated specs back as they were", () => {
    fc.assert(
      fc.property(arbitrarySpec, (spec) => {
        const read = toTypedSpec(valuesOf(spec));
        expect(read).toEqual(spec);
      }),
      { numRuns: 2500 },
    );
  });

  it("has a field for every option that PVE has", () => {
    const tables = [
      [["ide0", "sata0", "scsi0", "virtio0", "efidisk0", "tpmstate0"], diskFields, ["file", "size"]],
      [["net0"], networkFields, []],
      [["cpu"], cpuTypeFields, []],
      [["ipconfig0"], addressFields, []],
      [["cicustom"], customFields, []],
    ] as const;
    for (const [keys, table, elsewhere] of tables) {
      const options = keys.flatMap((key) =>
        Object.entries(propertyFormatOf(vmKeySchema(key)?.format) ?? {})
          .filter(
            ([name, rule]) => rule.alias === undefined && !(elsewhere as readonly string[]).includes(name),
          )
          .map(([name, rule]) => `${name}:${rule.type}`),
      );
      expect(table.map(({ pve, type }) => `${pve}:${type}`).toSorted()).toEqual(
        [...new Set(options)].toSorted(),
      );
      expect(new Set(table.map(({ field }) => field)).size).toBe(table.length);
    }
  });
});

describe("a configuration from a spec", () => {
  it("makes a disk from a storage and a size, and a card from a bridge", () => {
    expect(
      valuesOf({
        disks: [
          { name: "scsi0", storage: "local", size: "10Gi", format: "qcow2", boot: true },
          { name: "scsi1", storage: "local", size: "512Mi" },
          { name: "efidisk0", storage: "local" },
          { name: "virtio0", storage: "local", importFrom: "local:import/x.qcow2" },
        ],
        networks: [{ name: "net0", bridge: "vmbr0" }],
      }),
    ).toEqual({
      scsi0: "local:10,format=qcow2",
      scsi1: "local:0.5",
      efidisk0: "local:1",
      virtio0: "local:0,import-from=local:import/x.qcow2",
      net0: "virtio,bridge=vmbr0",
      boot: "order=scsi0",
    });
  });

  it("takes a document with `config` alone as it is", () => {
    const config = {
      name: "demo",
      cores: "1",
      memory: "64",
      scsi0: "local:1,format=qcow2",
      serial0: "socket",
    };
    expect(valuesOf({ config })).toEqual(config);
  });

  it("takes the same thing said twice, however it is written", () => {
    const spec = {
      memory: { size: "1024Mi" },
      networks: [{ name: "net0", bridge: "vmbr0" }],
      config: { memory: "1024", net0: "bridge=vmbr0,model=virtio,tag=7" },
    };
    expect(valuesOf(spec)).toEqual({ memory: "1024", net0: "bridge=vmbr0,model=virtio,tag=7" });
  });

  it("names both values where typed field and config contradict each other", () => {
    expect(errorsOf({ cpu: { cores: 2 }, config: { cores: "4" } })).toEqual({
      "spec.config.cores": "is '4', but spec.cpu.cores is 2: say it once",
    });
    expect(
      errorsOf({ networks: [{ name: "net0", bridge: "vmbr1" }], config: { net0: "virtio,bridge=vmbr0" } }),
    ).toEqual({
      "spec.config.net0": `is 'virtio,bridge=vmbr0', but spec.networks[net0].bridge is "vmbr1": say it once`,
    });
    expect(errorsOf({ memory: { ballooning: true }, config: { balloon: "0" } })).toEqual({
      "spec.config.balloon": "is '0', but spec.memory.ballooning is true: say it once",
    });
    expect(
      errorsOf({
        disks: [{ name: "scsi0", storage: "local", size: "1Gi", boot: true }],
        config: { boot: "cdn" },
      }),
    ).toEqual({ "spec.config.boot": "is 'cdn', but boot of scsi0 is true: say it once" });
    expect(
      errorsOf({
        disks: [{ name: "scsi0", storage: "local", size: "1Gi" }],
        config: { scsi0: "local:1,size=2G" },
      }),
    ).toEqual({
      "spec.config.scsi0": "is 'local:1,size=2G', which spec.disks[scsi0] cannot say: leave one of them out",
    });
  });

  it("shows no password in a contradiction", () => {
    const errors = errorsOf({ cloudInit: { password: "$5$one" }, config: { cipassword: "$5$two" } });
    expect(errors).toEqual({
      "spec.config.cipassword": "is one secret, but spec.cloudInit.password is another: say it once",
    });
  });

  it("refuses sizes with a unit that can be misread, and says what was meant", () => {
    const sizes = ["4GB", "4gi", "4G", "4 Gi", "4g", "4GiB"];
    for (const size of sizes)
      expect(errorsOf({ memory: { size } })).toEqual({
        "spec.memory.size": `'${size}' is no size: write a number and Ki, Mi, Gi, Ti or Pi; did you mean '4Gi'?`,
      });
    expect(errorsOf({ memory: { size: "lots" } })["spec.memory.size"]).toMatch(/^'lots' is no size/);
    expect(errorsOf({ memory: { size: "4096" } })).toEqual({
      "spec.memory.size": "'4096' is not a whole number of Mi",
    });
    expect(errorsOf({ memory: { size: "0.3Ki" } })["spec.memory.size"]).toMatch(
      /not a whole number of bytes/,
    );
    expect(errorsOf({ disks: [{ name: "scsi0", storage: "local", size: "10GB" }] })).toHaveProperty([
      "spec.disks[scsi0].size",
    ]);
  });

  it("tells everything that is wrong at once", () => {
    expect(
      errorsOf({
        memory: { minimum: "1Gi", ballooning: false },
        disks: [
          { name: "scsi0" },
          { name: "scsi0", storage: "local", size: "1Gi" },
          { name: "disk1", storage: "local", size: "1Gi" },
          { name: "scsi3", storage: "local" },
          { name: "scsi4", storage: "other", volume: "local:100/x.raw" },
          { name: "scsi5", storage: "local", size: "1000" },
        ],
        networks: [{ name: "net99" }],
        cloudInit: { sshKeys: [] },
        cpu: { cores: 1e21 },
      }),
    ).toEqual({
      "spec.memory.minimum": "is '1Gi', but spec.memory.ballooning is false",
      "spec.disks[scsi0]": "needs a volume, or a storage and a size for a new one",
      "spec.disks[scsi0].name": "is given twice",
      "spec.disks[disk1].name": "'disk1' is none of scsi0, virtio0, sata0, ide0, efidisk0, tpmstate0, …",
      "spec.disks[scsi3].size": "is needed where the disk has no volume yet",
      "spec.disks[scsi4].storage": "is 'other', but spec.disks[scsi4].volume is 'local:100/x.raw'",
      "spec.disks[scsi5].size": "is 1000 bytes: a disk has a whole number of Ki",
      "spec.networks[net99].name": "'net99' is none of net0, net1, …",
      "spec.cloudInit.sshKeys": "is empty: leave it out instead",
      "spec.cpu.cores": "1e+21 is out of range",
    });
  });

  it("refuses to boot from nothing, and from what holds no system", () => {
    expect(errorsOf({ disks: [{ name: "efidisk0", storage: "local", boot: true }] })).toEqual({
      "spec.disks[efidisk0].boot": "is true, but no machine boots from it",
    });
    expect(errorsOf({ disks: [{ name: "scsi0", storage: "local", size: "1Gi", boot: false }] })).toEqual({
      "spec.disks": "boot is false everywhere: say true where it shall boot from, or nothing",
    });
    expect(
      valuesOf({
        disks: [{ name: "scsi0", storage: "local", size: "1Gi", boot: false }],
        networks: [{ name: "net0", boot: true }],
      }),
    ).toMatchObject({ boot: "order=net0" });
  });
});

describe("a quantity", () => {
  it("reads back what it was written as", () => {
    fc.assert(
      fc.property(fc.nat({ max: Number.MAX_SAFE_INTEGER }), (bytes) => {
        expect(parseQuantity(formatQuantity(bytes), "")).toBe(bytes);
      }),
    );
    expect(parseQuantity("1.5Gi", "")).toBe(1_610_612_736);
  });
});
