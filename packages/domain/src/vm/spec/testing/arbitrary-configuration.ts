// Configurations with every key PVE knows, made from its own schema: values that are plain, odd and written in every
// way its reader takes. What the reader refuses is not among them.
import fc from "fast-check";
import type { PveSchema } from "@gpve/contracts/pve/schema.ts";
import { propertyFormatOf } from "../../../schema/check.ts";
import { driveKeys, checkVmValue, vmKeySchemas } from "../../config/keys.ts";
import type { VmValues } from "../../config/vm-config.ts";

const OF_FORMAT: Readonly<Record<string, readonly string[]>> = {
  "address-list": ["192.0.2.1", "192.0.2.1 2001:db8::1", "192.0.2.1,192.0.2.2"],
  "disk-size": ["1G", "1024M", "1.5T", "528K", "34359738368", "0", "4GiB"],
  ipv4: ["192.0.2.1"],
  ipv6: ["2001:db8::1"],
  "mac-addr": ["BC:24:11:00:00:01", "bc:24:11:AA:bb:0c"],
  "pve-bridge-id": ["vmbr0", "vmbr4094"],
  "pve-cpuset": ["0,5,8-11", "3"],
  "pve-ipv4-config": ["dhcp", "192.0.2.10/24"],
  "pve-ipv6-config": ["auto", "dhcp", "2001:db8::10/64"],
  "pve-phys-bits": ["host", "48"],
  "pve-qm-boot": [
    "order=scsi0;net0",
    "order=net0;scsi0",
    "order=ide2",
    "order=usb0;scsi1",
    "cdn",
    "legacy=dc",
    " ",
  ],
  "pve-startup-order": ["order=1,up=2,down=3", "down=3", "5", "up=1,order=2", "1,up=3"],
  "pve-storage-id": ["local"],
  "pve-tag-list": ["a;b", "b,a"],
  "pve-volume-id": ["local:snippets/a.yaml", "local:100/vm-100-disk-0.raw"],
  "pve-volume-id-or-absolute-path": ["local:100/x.raw", "/srv/x.raw"],
  "pve-volume-id-or-qm-path": [
    "local:32",
    "local:0.5",
    "local:0",
    "local:00.25",
    "local:100/vm-100-disk-0.qcow2",
    "none",
    "cdrom",
    "/dev/sdb",
    "local:iso/debian.iso",
    "local:cloudinit",
    "zfs:vm-100-disk-1",
    "zfs:base-9-disk-0/vm-100-disk-0",
  ],
  urlencoded: ["ssh-ed25519%20AAAA%20me", "a%0Ab%0A", "%41", "plain"],
};
const TEXTS = [
  "x",
  "a b",
  "host",
  "seabios",
  "ovmf",
  "+aes;-pcid",
  "2",
  "1",
  "x86-64-v2-AES",
  "4m",
  "ü",
  "$6$salt$hash",
];
const MOST_PARTS = 60;
const NUMBERS = [
  "0",
  "1",
  "2",
  "4",
  "16",
  "512",
  "1024",
  "4096",
  "4097",
  "50000",
  "1.5",
  "2.0",
  "1.50",
  "0007",
];

/** Texts of one value; many of them refused by its schema. */
function textOf(schema: PveSchema): fc.Arbitrary<string> {
  if (schema.type === "boolean") return fc.constantFrom("0", "1", "on", "no");
  if (schema.type === "integer" || schema.type === "number") return fc.constantFrom(...NUMBERS);
  const properties = propertyFormatOf(schema.format);
  if (properties !== undefined && typeof schema.format !== "string") return propertyText(properties);
  if (properties !== undefined && OF_FORMAT[schema.format as string] === undefined)
    return propertyText(properties);
  const known = [
    ...(typeof schema.format === "string" ? (OF_FORMAT[schema.format] ?? []) : []),
    ...(schema.enum ?? []),
  ];
  return fc.constantFrom(...(known.length > 0 ? known : TEXTS));
}

function propertyText(properties: Readonly<Record<string, PveSchema>>): fc.Arbitrary<string> {
  const entries = Object.entries(properties);
  const keys = entries
    .filter(([, rule]) => rule.optional !== true && rule.alias === undefined)
    .map(([key]) => key);
  const bare = entries.find(([, rule]) => rule.default_key === true || rule.default_key === 1)?.[0];
  const part = ([key, rule]: [string, PveSchema]): fc.Arbitrary<string> =>
    textOf(rule.alias === undefined ? rule : (properties[rule.alias] ?? rule)).chain((text) =>
      key === bare ? fc.constantFrom(text, text, `${key}=${text}`) : fc.constant(`${key}=${text}`),
    );
  const parts = entries.map((entry) => ({ key: entry[0], text: part(entry) }));
  const record = fc.record(Object.fromEntries(parts.map(({ key, text }) => [key, text])), {
    requiredKeys: keys,
  });
  return fc.tuple(record, fc.infiniteStream(fc.nat(MOST_PARTS))).map(([chosen, order]) => {
    const drawn = Object.entries(chosen).map(([key, text]) => ({
      key,
      text: text as string,
      at: order.next().value as number,
    }));
    // Few of them, in any order: all at once contradict each other.
    return drawn
      .filter(({ key, at }) => keys.includes(key) || at < MOST_PARTS / 10)
      .toSorted((one, other) => one.at - other.at)
      .map(({ text }) => text)
      .join(",");
  });
}

const kinds = Object.entries(vmKeySchemas).filter(([key]) => !["cdrom"].includes(key));
const keyOf = (kind: string): fc.Arbitrary<string> => {
  if (!kind.endsWith("[n]")) return fc.constant(kind);
  const stem = kind.slice(0, -3);
  const known = driveKeys.filter((key) => key.replace(/\d+$/, "") === stem);
  return fc.constantFrom(...(known.length > 0 ? known : [`${stem}0`, `${stem}1`, `${stem}12`]));
};

const OFTEN = /^(?:net|scsi|virtio|ide|sata|ipconfig|boot|cpu)/;
const line: fc.Arbitrary<readonly [string, string]> = fc.oneof(
  ...kinds.map(([kind, schema]) => ({
    weight: OFTEN.test(kind) ? 4 : 1,
    arbitrary: fc.tuple(keyOf(kind), textOf(schema)),
  })),
);

export const arbitraryConfiguration: fc.Arbitrary<VmValues> = fc
  .array(line, { minLength: 1, maxLength: 24 })
  .map((lines) => {
    const values: Record<string, string> = {};
    for (const [key, text] of lines) {
      const checked = checkVmValue(key, text);
      if (checked.ok) values[key] = checked.value;
    }
    return values;
  });
