// Packer (Debian's, unmodified) builds templates: from an installation disc that it types into, and from a template.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { skipping } from "../../support/foreign-clients.ts";
import {
  type Api,
  apiOf,
  firstNode,
  type Gpve,
  mainFile,
  nodeBinary,
  startGpve,
} from "../../support/gpve.ts";
import { networkTurn, type NetworkTurn } from "../../support/network-turn.ts";
import { uploadImage } from "../../support/images.ts";
import { installationDisc } from "../../support/installation-disc.ts";
import { waitTask } from "../../support/tasks.ts";

const PACKER = "/usr/bin/packer";
const NEEDED = [
  PACKER,
  "/usr/bin/qemu-system-x86_64",
  "/usr/bin/xorriso",
  "/usr/bin/mcopy",
  "/usr/lib/ISOLINUX/isolinux.bin",
  "/usr/lib/syslinux/modules/bios/ldlinux.c32",
  "/usr/sbin/dnsmasq",
  "/usr/sbin/nft",
];
const lacking = [
  ...(process.getuid?.() === 0 ? [] : ["root"]),
  ...NEEDED.filter((path) => !existsSync(path)),
];
const reason =
  lacking.length === 0
    ? undefined
    : `no ${lacking.join(", ")}; get them with: apt-get install packer qemu-system-x86 xorriso isolinux syslinux-common mtools dnsmasq-base nftables`;

/** Another test may have the network for as long as it takes. */
const TURN_TIMEOUT_MS = 1_800_000;

describe.skipIf(skipping("Packer", reason))("Packer", () => {
  let gpve: Gpve;
  let api: Api;
  let node: string;
  let folder: string;

  let turn: NetworkTurn;
  const run = async (method: string, path: string, params?: Record<string, string | number>) => {
    const answer = await api(method, `/nodes/${node}${path}`, params);
    expect(answer.status, answer.text).toBe(200);
    expect(await waitTask(api, answer.data as string)).toMatchObject({ exitstatus: "OK" });
  };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-packer-"));
    turn = await networkTurn();
    gpve = await startGpve({ network: true });
    api = apiOf(gpve.credentials);
    node = await firstNode(api);
  }, TURN_TIMEOUT_MS);
  afterAll(async () => {
    await exec(nodeBinary, [mainFile, "down", "--guests", "--data", gpve.data], { timeoutMs: 120_000 });
    await gpve.stop();
    turn.release();
    rmSync(folder, { recursive: true, force: true });
  });

  const PASSWORD = "typed-by-packer";
  const install = (hash: string): string => `
mount -t iso9660 -o ro /dev/sr0 /mnt
gunzip -c /mnt/disk.gz | dd of=/dev/sda bs=1M
sync
blockdev --rereadpt /dev/sda
mount -t ext4 /dev/sda2 /data
echo 'root:${hash}:0::::::' >/etc/shadow
`;

  const builders = (disc: string): object[] => {
    const machine = {
      proxmox_url: `${gpve.credentials.url}/api2/json`,
      username: gpve.credentials.username,
      password: gpve.credentials.password,
      node,
      memory: 256,
      os: "l26",
      scsi_controller: "virtio-scsi-pci",
      network_adapters: [{ model: "virtio", bridge: "vmbr0" }],
      ssh_username: "root",
      ssh_timeout: "5m",
    };
    const checksum = createHash("sha256").update(readFileSync(disc)).digest("hex");
    const disk = { type: "scsi", disk_size: "1G", storage_pool: "local", format: "qcow2" };
    // Typed twice: what comes before the disc asks is lost on a busy machine, and what comes later does no harm.
    const line = "tiny tiny.run=http://{{ .HTTPIP }}:{{ .HTTPPort }}/install.sh<enter>";
    return [
      {
        ...machine,
        type: "proxmox-iso",
        name: "installed",
        vm_id: 9100,
        vm_name: "installing",
        disks: [{ ...disk, storage_pool_type: "directory" }],
        iso_url: disc,
        iso_checksum: `sha256:${checksum}`,
        iso_storage_pool: "local",
        http_directory: join(folder, "http"),
        boot_wait: "10s",
        boot_key_interval: "20ms",
        boot_command: [line, "<wait20s>", line],
        ssh_password: PASSWORD,
        // The disc's own SSH server refuses until the installation is done.
        ssh_handshake_attempts: 200,
        template_name: "installed",
        template_description: "installed by Packer",
      },
      {
        ...machine,
        type: "proxmox-clone",
        name: "cloned",
        vm_id: 9200,
        vm_name: "cloning",
        clone_vm: "tiny-base",
        full_clone: false,
        template_name: "cloned",
        template_description: "cloned by Packer",
      },
    ];
  };

  test("builds templates from a disc and from a template", { timeout: 600_000 }, async () => {
    await run("POST", "/qemu", {
      vmid: 9000,
      name: "tiny-base",
      memory: 256,
      agent: 1,
      serial0: "socket",
      scsihw: "virtio-scsi-pci",
      scsi0: `local:0,import-from=${await uploadImage(gpve, "tiny.qcow2")},format=qcow2`,
      ide2: "local:cloudinit",
      ipconfig0: "ip=dhcp",
      net0: "virtio,bridge=vmbr0",
    });
    await run("POST", "/qemu/9000/template");
    mkdirSync(join(folder, "http"));
    const { stdout: hash } = await exec("openssl", ["passwd", "-6", "-stdin"], { input: PASSWORD });
    writeFileSync(join(folder, "http/install.sh"), install(hash.trim()));
    const written = ["echo built as {{ build_name }} >/data/built", "sync", "umount /data"];
    const template = {
      builders: builders(await installationDisc(folder)),
      provisioners: [{ type: "shell", inline: written }],
    };
    const file = join(folder, "build.json");
    writeFileSync(file, JSON.stringify(template), { mode: 0o600 });
    const env = {
      ...MINIMAL_ENV,
      HOME: folder,
      CHECKPOINT_DISABLE: "1",
      PACKER_CACHE_DIR: join(folder, "cache"),
      SSL_CERT_FILE: gpve.credentials.caFile,
    };
    // Both at once, as Packer does it unless told otherwise.
    const built = await exec(PACKER, ["build", "-color=false", file], {
      env,
      cwd: folder,
      timeoutMs: 560_000,
      okCodes: [0, 1],
    });
    expect(built.stdout + built.stderr).toContain("--> installed: A template was created: 9100");
    expect(built.stdout).toContain("--> cloned: A template was created: 9200");
  });

  test("leaves templates as it was told to", async () => {
    const installed = (await api("GET", `/nodes/${node}/qemu/9100/config`)).data;
    expect(installed).toMatchObject({
      name: "installed",
      description: "installed by Packer",
      template: 1,
      kvm: 1,
      ide2: expect.stringMatching(/^local:iso\/.+\.iso,media=cdrom,size=\d+K$/),
      scsi0: expect.stringContaining("local:9100/base-9100-disk-0.qcow2"),
    });
    const cloned = (await api("GET", `/nodes/${node}/qemu/9200/config`)).data;
    expect(cloned).toMatchObject({
      name: "cloned",
      description: "cloned by Packer",
      template: 1,
      scsi0: expect.stringContaining("base-9000-disk-0.qcow2/9200/base-9200-disk-0.qcow2"),
    });
  });

  test.each([
    ["installed", 9100],
    ["cloned", 9200],
  ])("its template %s boots, with what was provisioned", async (name, template) => {
    const vmid = template + 1;
    await run("POST", `/qemu/${template}/clone`, { newid: vmid, name: `${name}-copy` });
    await run("POST", `/qemu/${vmid}/status/start`);
    const read = (): Promise<{ status: number; data: { content: string } }> =>
      api("GET", `/nodes/${node}/qemu/${vmid}/agent/file-read`, { file: "/data/built" });
    await expect.poll(async () => (await read()).status, { timeout: 150_000, interval: 500 }).toBe(200);
    expect((await read()).data.content).toBe(`built as ${name}\n`);
    await run("POST", `/qemu/${vmid}/status/stop`);
    await run("DELETE", `/qemu/${vmid}`);
  });
});
