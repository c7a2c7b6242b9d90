// Makes the examples from which broken inputs for readers are made (test/support/fuzz/corpus). Needs mke2fs and
// qemu-img; what is there is replaced:
//
//   node tools/fuzz/make-corpus.ts
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { VmaWriter } from "@gpve/agent/infrastructure/backup/vma/vma-writer.ts";
import { exec } from "@gpve/kit/exec.ts";
import { fatImage, masterBootRecord } from "./fat-image.ts";
import { OVF_EXAMPLES, QMP_EXAMPLES } from "./text-examples.ts";

const CORPUS = resolve(import.meta.dirname, "../../test/support/fuzz/corpus");
const scratch = mkdtempSync(join(tmpdir(), "gpve-corpus-"));

function keep(reader: string, name: string, content: Uint8Array | string): void {
  mkdirSync(join(CORPUS, reader), { recursive: true });
  writeFileSync(join(CORPUS, reader, name), content);
}

async function makeVma(): Promise<void> {
  const devices = [
    { id: 1, name: "drive-scsi0", size: 3 * 65_536 },
    { id: 2, name: "drive-efidisk0", size: 70_000 },
    { id: 3, name: "vmstate", size: 0 },
  ];
  const uuid = Buffer.from("00112233445566778899aabbccddeeff", "hex");
  const text = (value: string): Uint8Array => Buffer.from(value);
  const configs = new Map([
    ["qemu-server.conf", text("name: a\n")],
    ["qemu-server.fw", text("x")],
  ]);
  for (const [name, used] of [
    ["disks.vma", devices.slice(0, 2)],
    ["state.vma", devices],
    ["header.vma", []],
  ] as const) {
    const parts: Uint8Array[] = [];
    const writer = new VmaWriter({ uuid, ctime: 1_700_000_000, configs, devices: used }, async (bytes) => {
      parts.push(bytes);
    });
    await writer.begin();
    for (const { id, size } of used) {
      for (let cluster = 0; cluster * 65_536 < size; cluster++)
        if (cluster === 1) await writer.cluster(id, cluster, Buffer.alloc(4096, "data"));
        else await writer.zeroCluster(id, cluster);
    }
    if (used.length === 3) await writer.cluster(3, 0, Buffer.alloc(4096, "ram"));
    await writer.end();
    keep("vma", name, Buffer.concat(parts));
  }
}

async function makeExt(): Promise<void> {
  const root = join(scratch, "root");
  mkdirSync(join(root, "etc"), { recursive: true });
  writeFileSync(join(root, "etc/hostname"), "web\n");
  writeFileSync(join(root, "file"), Buffer.alloc(18 * 1024, "content"));
  symlinkSync("etc/hostname", join(root, "short"));
  symlinkSync("x".repeat(80), join(root, "long"));
  for (const [name, options] of [
    ["ext2.img", ["-t", "ext2", "-b", "1024"]],
    ["ext4.img", ["-t", "ext4", "-b", "1024", "-O", "^has_journal"]],
    ["ext4-32bit.img", ["-t", "ext4", "-b", "1024", "-O", "^has_journal,^64bit,^metadata_csum"]],
  ] as const) {
    const image = join(scratch, name);
    const seed = [
      "-U",
      "00112233-4455-6677-8899-aabbccddeeff",
      "-E",
      "hash_seed=00112233-4455-6677-8899-aabbccddeeff",
    ];
    await exec("mke2fs", ["-q", "-F", ...options, ...seed, "-N", "24", "-m", "0", "-d", root, image, "72k"]);
    keep("ext", name, readFileSync(image));
  }
}

async function makeImages(): Promise<void> {
  const make = async (name: string, args: readonly string[], reader: string): Promise<void> => {
    const path = join(scratch, name);
    await exec("qemu-img", ["create", "-q", ...args, path, "1M"]);
    keep(reader, name, readFileSync(path).subarray(0, reader === "vmdk" ? 11 * 1024 : 1024));
  };
  await make("v2.qcow2", ["-f", "qcow2", "-o", "compat=0.10"], "qcow2");
  await make("v3.qcow2", ["-f", "qcow2"], "qcow2");
  const base = join(scratch, "v3.qcow2");
  await make("linked.qcow2", ["-f", "qcow2", "-b", base, "-F", "qcow2"], "qcow2");
  await make("data.qcow2", ["-f", "qcow2", "-o", `data_file=${join(scratch, "data.raw")}`], "qcow2");
  await make("sparse.vmdk", ["-f", "vmdk"], "vmdk");
}

try {
  rmSync(CORPUS, { recursive: true, force: true });
  await makeVma();
  await makeExt();
  await makeImages();
  keep("fat", "fat12.img", fatImage());
  keep("fat", "mbr.img", masterBootRecord());
  keep("ext", "mbr.img", masterBootRecord());
  for (const [name, text] of Object.entries(OVF_EXAMPLES)) keep("ovf", name, text);
  for (const [name, text] of Object.entries(QMP_EXAMPLES)) keep("qmp", name, text);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
