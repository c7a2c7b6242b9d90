// Ansible's own modules and inventory (Debian), as playbooks use them, on a VM with a real Linux.
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { clientsFolder, DEBIAN_PYTHON, lacksPython, skipping } from "../../support/foreign-clients.ts";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../../support/gpve.ts";
import { uploadImage } from "../../support/images.ts";
import { testBridge, type TestBridge } from "../../support/test-bridge.ts";

const PLAYBOOK = "/usr/bin/ansible-playbook";
const lacking =
  existsSync("/usr/bin/qemu-system-x86_64") && existsSync(PLAYBOOK)
    ? await lacksPython("proxmoxer, requests", "python3-proxmoxer python3-requests")
    : "get it with: apt-get install ansible qemu-system-x86 qemu-utils";

interface Outcome {
  readonly changed?: boolean;
  readonly msg?: string;
  readonly stdout?: string;
  readonly [key: string]: unknown;
}
interface Report {
  readonly plays: readonly {
    readonly tasks: readonly {
      readonly task: { readonly name: string };
      readonly hosts: Readonly<Record<string, Outcome>>;
    }[];
  }[];
}
interface Inventory {
  readonly _meta: { readonly hostvars: Readonly<Record<string, Readonly<Record<string, unknown>>>> };
  readonly [group: string]: unknown;
}

/** A task whose name ends in "again" asks for what is there already. */
const UNCHANGED = /again$|^look|^wait|^tell|^read$|^keep|^pull/;

describe.skipIf(skipping("Ansible", lacking))("Ansible", () => {
  let gpve: Gpve;
  let bridge: TestBridge;
  let api: Api;
  let node: string;
  let folder: string;
  const outcomes = new Map<string, Outcome>();

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-ansible-"));
    bridge = await testBridge({ guestsFrom: 6300 });
    gpve = await startGpve();
    api = apiOf(gpve.credentials);
    await api("PUT", "/cluster/options", { "next-id": "lower=6300" });
    node = await firstNode(api);
    const second = join(folder, "second");
    mkdirSync(second);
    await api("POST", "/storage", { storage: "second", type: "dir", path: second, content: "images" });
    await api("POST", "/pools", { poolid: "players" });
    await uploadImage(gpve, "tiny.qcow2");
  });
  afterAll(async () => {
    await gpve.stop();
    await bridge.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Only the authority that `up` made is trusted, so that certificates are checked. */
  const ansible = async (tool: string, ...args: string[]): Promise<string> => {
    const env = {
      ...MINIMAL_ENV,
      LC_ALL: "C.UTF-8",
      HOME: folder,
      REQUESTS_CA_BUNDLE: gpve.credentials.caFile,
      ANSIBLE_LOCALHOST_WARNING: "false",
      ANSIBLE_PIPELINING: "1",
      ANSIBLE_STDOUT_CALLBACK: "ansible.posix.json",
      ANSIBLE_PYTHON_INTERPRETER: DEBIAN_PYTHON,
    };
    const run = await exec(tool, args, { env, cwd: folder, timeoutMs: 420_000, okCodes: [0, 2] });
    return run.stdout;
  };

  test("playbooks create, change, start, snapshot, clone and remove VMs", async () => {
    const { url, caFile, password, token } = gpve.credentials;
    const [, tokenId, secret] = /^[^!]+!([^=]+)=(.+)$/.exec(token) ?? [];
    const iso = join(folder, "play.iso");
    writeFileSync(iso, Buffer.alloc(4096, 7));
    const inventory = join(folder, "guests.proxmox.yml");
    const source = {
      plugin: "community.general.proxmox",
      url,
      user: "root@pam",
      password,
      want_facts: true,
      qemu_extended_statuses: true,
      want_proxmox_nodes_ansible_host: true,
      keyed_groups: [{ key: "proxmox_tags_parsed", prefix: "tag", separator: "_" }],
    };
    writeFileSync(inventory, JSON.stringify(source), { mode: 0o600 });
    const host = new URL(url).host;
    const vars = { host, user: "root@pam", node, iso, inventory, ca: caFile, pool: "players" };
    const secrets = { password, token, token_id: tokenId, token_secret: secret };
    const varsFile = join(folder, "vars.json");
    const all = { ...vars, ...secrets, image: "local:import/tiny.qcow2", bridge: bridge.name };
    writeFileSync(varsFile, JSON.stringify(all), { mode: 0o600 });
    const playbook = join(clientsFolder, "ansible-round.yml");
    const text = await ansible(PLAYBOOK, "-i", "localhost,", "-e", `@${varsFile}`, playbook);
    const report = JSON.parse(text) as Report;
    for (const { task, hosts } of report.plays.flatMap((play) => play.tasks))
      outcomes.set(task.name, hosts["localhost"] ?? {});
    const failed = [...outcomes].filter(([, outcome]) => outcome["failed"] === true);
    expect(failed.map(([name, { msg }]) => `${name}: ${msg}`)).toEqual([]);
    const wrong = [...outcomes].filter(([name, { changed }]) => (changed === true) === UNCHANGED.test(name));
    expect(wrong.map(([name, { msg }]) => `${name}: ${msg}`)).toEqual([]);
    expect(outcomes.size).toBeGreaterThan(55);
  });

  test("modules tell the truth", () => {
    const json = (name: string): string => JSON.stringify(outcomes.get(name));
    expect(outcomes.get("look")).toMatchObject({ status: "stopped" });
    expect(outcomes.get("look while it runs")).toMatchObject({ status: "running" });
    expect(outcomes.get("create")).toMatchObject({
      vmid: 6300,
      mac: { net0: expect.stringMatching(/^BC:24:11:/) },
      devices: { scsi0: "local:6300/vm-6300-disk-0.qcow2", ide2: "local:iso/play.iso" },
    });
    const { data } = (outcomes.get("read") ?? {})["json"] as { data: Record<string, unknown> };
    expect(data).toMatchObject({
      memory: "288",
      cores: 2,
      onboot: 1,
      ciuser: "ann",
      ipconfig0: "ip=192.0.2.10/24,gw=192.0.2.1",
      nameserver: "192.0.2.53 192.0.2.54",
      description: "changed by a playbook",
      net0: expect.stringMatching(`^e1000=BC:24:11:.*,bridge=${bridge.name},link_down=1$`),
    });
    for (const gone of ["startup", "searchdomain", "scsi1", "unused0", "net1"])
      expect(data).not.toHaveProperty(gone);
    expect(json("tell of storages")).toContain('"storage":"local"');
    expect(json("tell of one storage")).toContain('"storage":"second"');
    expect(json("tell of users")).toContain('"userid":"root@pam"');
    expect(json("tell of realms")).toContain('"realm":"pve"');
    expect(json("tell of tasks")).toContain('"type":"qmrollback"');
  });

  test("the inventory lists and groups guests, with what their agents say", () => {
    const inventory = JSON.parse(outcomes.get("list")?.stdout ?? "{}") as Inventory;
    for (const group of ["all_qemu", "all_running", `${node}_qemu`, "pool_players"])
      expect(inventory[`proxmox_${group}`]).toEqual({ hosts: ["play"] });
    expect(inventory["proxmox_nodes"]).toEqual({ hosts: [node] });
    expect(inventory["tag_blue"]).toEqual({ hosts: ["play"] });
    expect(inventory["tag_red"]).toEqual({ hosts: ["play"] });
    expect(inventory._meta.hostvars["play"]).toMatchObject({
      proxmox_vmid: 6300,
      proxmox_status: "running",
      proxmox_qmpstatus: "running",
      proxmox_snapshots: ["before"],
      proxmox_scsi0: { disk_image: "local:6300/vm-6300-disk-0.qcow2", discard: "on", size: "128M" },
      proxmox_agent_interfaces: expect.arrayContaining([
        expect.objectContaining({ name: "lo", "ip-addresses": expect.arrayContaining(["127.0.0.1/8"]) }),
      ]),
    });
  });

  test("nothing is left", async () => {
    expect((await api("GET", `/nodes/${node}/qemu`)).data).toEqual([]);
    const volumes = (await api("GET", `/nodes/${node}/storage/local/content`)).data as { volid: string }[];
    expect(volumes.map(({ volid }) => volid)).toEqual(["local:import/tiny.qcow2"]);
    expect((await api("GET", `/nodes/${node}/storage/second/content`)).data).toEqual([]);
  });
});
