// One real Linux guest from its creation to its return from a backup, through the API alone: Debian with cloud-init and
// guest agent, built by the product, under whatever accelerator this host has (TCG in CI).
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFailed, test, vi } from "vitest";
import { defaultImageCache } from "../support/build-caches.ts";
import { exec } from "@gpve/kit/exec.ts";
import { type Api, apiOf, firstNode, type Gpve, mainFile, nodeBinary, startGpve } from "../support/gpve.ts";
import {
  openTerminal,
  readDisc,
  runByAgent,
  runBySsh,
  untilAgentAnswers,
  type SshLogin,
} from "../support/guest.ts";
import { networkTurn, type NetworkTurn } from "../support/network-turn.ts";
import { waitTask } from "../support/tasks.ts";

const missing = [
  ...(process.getuid?.() === 0 ? [] : ["root"]),
  ...(existsSync("/usr/bin/qemu-system-x86_64") ? [] : ["qemu-system-x86"]),
  ...(existsSync("/usr/sbin/dnsmasq") ? [] : ["dnsmasq-base"]),
  ...(existsSync("/usr/sbin/nft") ? [] : ["nftables"]),
  ...(existsSync("/usr/bin/ssh") ? [] : ["openssh-client"]),
];
if (missing.length > 0)
  console.warn(
    `SKIPPED the story of a guest: needs ${missing.join(", ")}; get packages with apt-get install`,
  );

const MINUTES = 60_000;
const GIB = 1024 ** 3;
const USER = "ann";
const PASSWORD = "tell-nobody-7";
/** A second boot of a whole Debian takes minutes under emulation; clones of smaller guests boot in every run. */
const bootsClone = process.env["GPVE_STORY_CLONE"] === "1";

describe.skipIf(missing.length > 0)("the story of a guest", { timeout: 30 * MINUTES }, () => {
  let turn: NetworkTurn | undefined;
  let gpve: Gpve;
  let api: Api;
  let node: string;
  let bridge: { cidr: string; address: string };
  let login: SshLogin;
  let archive: string;
  const folder = mkdtempSync(join(tmpdir(), "gpve-story-"));
  const vm = (vmid = 100): string => `/nodes/${node}/qemu/${vmid}`;
  const began = Date.now();
  const mark = (what: string): void =>
    console.log(`${((Date.now() - began) / 1000).toFixed(0).padStart(4)} s  ${what}`);

  type Params = Readonly<Record<string, string | number>>;
  const run = async (method: string, path: string, params?: Params): Promise<string> => {
    const answer = await api(method, path, params);
    expect(answer.status, answer.text).toBe(200);
    const { exitstatus } = await waitTask(api, answer.data as string, 20 * MINUTES);
    const log = `/nodes/${node}/tasks/${encodeURIComponent(answer.data as string)}/log`;
    const lines = (await api("GET", log, { limit: 500 })).data as { t: string }[];
    const text = lines.map(({ t }) => t).join("\n");
    expect(exitstatus, text).toMatch(/^(?:OK|WARNINGS: \d+)$/);
    return text;
  };
  const set = async (params: Params, vmid = 100): Promise<void> => {
    const answer = await api("PUT", `${vm(vmid)}/config`, params);
    expect(answer.status, answer.text).toBe(200);
  };
  const config = async (vmid = 100) =>
    (await api("GET", `${vm(vmid)}/config`)).data as Record<string, string>;
  const inGuest = (...command: string[]): Promise<string> => runByAgent(api, vm(), ...command);
  const shell = (script: string): Promise<string> => inGuest("/bin/sh", "-c", script);
  const counter = async (): Promise<number> => Number(await shell("cat /run/counter"));

  // A guest that did not come this far cannot go on.
  let failed = false;
  beforeEach(({ skip }) => {
    if (failed) skip("an earlier part of the story failed");
    onTestFailed(() => void (failed = true));
  });

  beforeAll(async () => {
    turn = await networkTurn();
    const cache = defaultImageCache(process.env);
    gpve = await startGpve({ network: true, env: { GPVE_IMAGE_CACHE: cache } });
    api = apiOf(gpve.credentials);
    node = await firstNode(api);
    const log = readFileSync(join(gpve.data, "log/gpve.jsonl"), "utf8");
    const name = /"bridge":"([^"]+)"/.exec(log)?.[1];
    const rows = (await api("GET", `/nodes/${node}/network`, { type: "bridge" })).data as {
      iface: string;
      cidr: string;
    }[];
    // A host that has a vmbr0 keeps it: then its network is the guests' network, with or without DHCP.
    const cidr = rows.find(({ iface }) => iface === (name ?? "vmbr0"))?.cidr ?? "";
    expect(cidr, `no address on ${name ?? "vmbr0"}`).toMatch(/^[\d.]+\/24$/);
    bridge = { cidr, address: cidr.split("/")[0] ?? "" };
    const keyFile = join(folder, "key");
    await exec("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "story", "-f", keyFile]);
    login = { user: USER, address: bridge.address.replace(/\d+$/, "20"), keyFile };
    const v1 = apiOf(gpve.credentials, undefined, "/api/v1");
    const built = await v1("POST", `/nodes/${node}/images/debian/build`);
    expect(built.status, built.text).toBe(202);
    const { task } = built.json as unknown as { task: string };
    expect(await waitTask(api, task, 25 * MINUTES)).toMatchObject({ exitstatus: "OK" });
    mark("the image is there");
  }, 30 * MINUTES);

  afterAll(async () => {
    const down = ["down", "--guests", "--data", gpve.data];
    try {
      await exec(nodeBinary, [mainFile, ...down], { timeoutMs: 5 * MINUTES });
    } finally {
      await gpve.stop();
      turn?.release();
    }
    rmSync(folder, { recursive: true, force: true });
  }, 6 * MINUTES);

  test("it is created from an image, boots, and is reached by its serial port", async () => {
    await run("POST", `/nodes/${node}/qemu`, {
      vmid: 100,
      name: "story",
      memory: 512,
      cores: 2,
      agent: 1,
      serial0: "socket",
      scsihw: "virtio-scsi-pci",
      scsi0: "local:0,import-from=local:import/debian.qcow2,format=qcow2",
      ide2: "local:cloudinit",
      boot: "order=scsi0",
      net0: "virtio,bridge=vmbr0",
      ciuser: USER,
      cipassword: PASSWORD,
      ciupgrade: 0,
      sshkeys: encodeURIComponent(readFileSync(`${login.keyFile}.pub`, "utf8")),
      ipconfig0: `ip=${login.address}/24,gw=${bridge.address}`,
      nameserver: bridge.address,
      searchdomain: "example.org",
    });
    expect(await config()).toMatchObject({
      ide2: "local:100/vm-100-cloudinit.qcow2,media=cdrom",
      cipassword: "**********",
    });
    mark("created");
    await run("POST", `${vm()}/status/start`);
    const terminal = await openTerminal(gpve.credentials, api, vm());
    try {
      await terminal.until(/story login: /);
      mark("asks who logs in");
      await untilAgentAnswers(api, vm());
      await shell("cloud-init status --wait || true");
      mark("cloud-init is done");
      terminal.type(USER);
      await terminal.until(/assword: /);
      terminal.type(PASSWORD);
      await terminal.until(/\$ $/);
      terminal.type("echo $((6 * 7)) on $(hostname)");
      await terminal.until(/42 on story/);
    } finally {
      terminal.close();
    }
  });

  test("cloud-init has given it its name, its address and its key", async () => {
    expect(await shell("hostname; hostname --fqdn")).toBe("story\nstory.example.org\n");
    expect(await shell("ip -4 -o addr show dev eth0; ip route; cat /etc/resolv.conf")).toMatch(
      new RegExp(
        `inet ${login.address}/24[^]*default via ${bridge.address} [^]*nameserver ${bridge.address}`,
      ),
    );
    expect(await runBySsh(login, "whoami; sudo whoami; hostname")).toBe(`${USER}\nroot\nstory\n`);
    expect(await shell("cloud-init query ds.meta_data.instance_id; cloud-init status")).toContain(
      "status: done",
    );
    mark("reached by SSH");
  });

  test("its agent answers everything that PVE's clients ask", async () => {
    const own = (await config())["net0"] ?? "";
    const mac = /virtio=([^,]+)/.exec(own)?.[1]?.toLowerCase() ?? "";
    const ask = async (method: string, path: string, params: Params = {}): Promise<unknown> => {
      const answer = await api(method, `${vm()}/agent/${path}`, params);
      expect(answer.status, `${path}: ${answer.text}`).toBe(200);
      return answer.data;
    };
    const like = (part: object): unknown => expect.objectContaining(part);
    const some = (...parts: object[]): unknown => expect.arrayContaining(parts.map(like));
    const answers: readonly (readonly [string, string, unknown])[] = [
      ["POST", "ping", {}],
      ["GET", "info", like({ version: expect.stringMatching(/^\d+\.\d/), supported_commands: some({}) })],
      ["GET", "get-osinfo", like({ id: "debian", machine: "x86_64" })],
      ["GET", "get-host-name", { "host-name": "story" }],
      ["GET", "get-time", expect.any(Number)],
      ["GET", "get-timezone", like({ offset: 0 })],
      ["GET", "get-users", expect.any(Array)],
      ["GET", "get-vcpus", some({ "logical-id": 0, online: true }, { "logical-id": 1 })],
      ["GET", "get-memory-blocks", some({ "phys-index": 0, online: true })],
      ["GET", "get-memory-block-info", { size: expect.any(Number) }],
      ["GET", "get-fsinfo", [like({ mountpoint: "/", type: "ext4", name: "sda1" })]],
      ["POST", "fsfreeze-status", "thawed"],
      ["POST", "fsfreeze-freeze", 1],
      ["POST", "fsfreeze-status", "frozen"],
      ["POST", "fsfreeze-thaw", 1],
      ["POST", "fstrim", { paths: some({ path: "/" }) }],
      ["POST", "set-user-password", {}],
    ];
    for (const [method, path, result] of answers) {
      const params = path === "set-user-password" ? { username: USER, password: "another-1" } : {};
      expect(await ask(method, path, params), path).toEqual({ result });
    }
    const { result } = (await ask("GET", "network-get-interfaces")) as {
      result: { name: string; "hardware-address": string; "ip-addresses": { "ip-address": string }[] }[];
    };
    expect(result.find(({ name }) => name === "eth0")).toMatchObject({
      "hardware-address": mac,
      "ip-addresses": expect.arrayContaining([expect.objectContaining({ "ip-address": login.address })]),
    });
    const names = ((await api("GET", `${vm()}/agent`)).data as { name: string }[]).map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(answers.map(([, path]) => path)));
    expect((await api("POST", `${vm()}/agent`, { command: "get-host-name" })).data).toEqual({
      result: { "host-name": "story" },
    });
    await ask("POST", "file-write", { file: "/srv/letter", content: "dear guest\n" });
    expect(await ask("GET", "file-read", { file: "/srv/letter" })).toMatchObject({
      content: "dear guest\n",
    });
    expect(await api("GET", `${vm()}/agent/file-read`, { file: "/srv/none" })).toMatchObject({
      status: 500,
    });
    const status = await api("POST", `${vm()}/agent/exec`, { command: "/bin/false" });
    const { pid } = status.data as { pid: number };
    await vi.waitFor(
      async () => expect(await ask("GET", "exec-status", { pid })).toMatchObject({ exitcode: 1 }),
      { timeout: 150_000 },
    );
    mark("the agent has answered");
  });

  test("a change of its cloud-init drive reaches it while it runs", async () => {
    await set({ name: "renamed" });
    expect((await api("GET", `${vm()}/cloudinit`)).data).toContainEqual({
      key: "name",
      value: "story",
      pending: "renamed",
    });
    expect(await readDisc(api, vm())).toContain("hostname: story");
    const answer = await api("PUT", `${vm()}/cloudinit`);
    expect(answer.status, answer.text).toBe(200);
    await vi.waitFor(async () => expect(await readDisc(api, vm())).toContain("hostname: renamed"), {
      timeout: MINUTES,
      interval: 1_000,
    });
    expect((await api("GET", `${vm()}/cloudinit`)).text).not.toContain("pending");
    await set({ name: "story" });
  });

  test("its file systems stand still for the moment of a snapshot", async () => {
    const put = async (file: string, content: string): Promise<void> => {
      const answer = await api("POST", `${vm()}/agent/file-write`, { file, content });
      expect(answer.status, answer.text).toBe(200);
    };
    await put("/etc/qemu/qemu-ga.conf", "[general]\nfsfreeze-hook=/etc/qemu/story-hook\n");
    await put("/etc/qemu/story-hook", "#!/bin/sh\necho $1 >> /run/story-hook\n");
    await runBySsh(login, "sudo chmod 755 /etc/qemu/story-hook && sudo systemctl restart qemu-guest-agent");
    await untilAgentAnswers(api, vm());
    await run("POST", `${vm()}/snapshot`, { snapname: "disk" });
    expect(await shell("cat /run/story-hook")).toBe("freeze\nthaw\n");
    await run("DELETE", `${vm()}/snapshot/disk`);
    mark("a snapshot was taken of frozen file systems");
  });

  test("it goes back to a snapshot of its RAM", async () => {
    // A process that counts in its own memory, once for every signal.
    const script = [
      "#!/bin/sh",
      "n=0",
      "trap 'n=$((n + 1)); echo $n > /run/counter' USR1",
      "echo 0 > /run/counter",
      "while :; do sleep 1 & wait $!; done",
      "",
    ].join("\n");
    const answer = await api("POST", `${vm()}/agent/file-write`, { file: "/run/count", content: script });
    expect(answer.status, answer.text).toBe(200);
    await shell("systemd-run --quiet --unit=counter /bin/sh /run/count");
    const countTo = async (wanted: number): Promise<void> => {
      await vi.waitFor(async () => expect(await counter()).toBe(wanted - 1), { timeout: 5 * MINUTES });
      await shell("systemctl kill --signal=USR1 --kill-whom=main counter");
      await vi.waitFor(async () => expect(await counter()).toBe(wanted), { timeout: 5 * MINUTES });
    };
    await countTo(1);
    await countTo(2);
    const boot = await shell("cat /proc/sys/kernel/random/boot_id");
    await run("POST", `${vm()}/snapshot`, { snapname: "ram", vmstate: 1 });
    mark("RAM is saved");
    await countTo(3);
    await countTo(4);
    await shell("echo after the snapshot > /srv/later; sync");
    await run("POST", `${vm()}/snapshot/ram/rollback`);
    await untilAgentAnswers(api, vm());
    expect(await counter()).toBe(2);
    await countTo(3);
    expect(await shell("cat /proc/sys/kernel/random/boot_id")).toBe(boot);
    expect(await shell("ls /srv")).not.toContain("later");
    expect(await runBySsh(login, "hostname")).toBe("story\n");
    mark("it has gone back to its RAM");
    await run("DELETE", `${vm()}/snapshot/ram`);
  });

  test("its disk grows while it runs", async () => {
    const size = async (): Promise<number> => Number(await shell("cat /sys/block/sda/size")) * 512;
    const before = await size();
    await run("PUT", `${vm()}/resize`, { disk: "scsi0", size: "+1G" });
    await vi.waitFor(async () => expect(await size()).toBe(before + GIB), { timeout: MINUTES });
    await runBySsh(login, "sudo growpart /dev/sda 1 && sudo resize2fs /dev/sda1");
    expect(Number((await shell("df -B1 --output=size / | tail -n 1")).trim())).toBeGreaterThan(before);
    mark("the disk has grown");
  });

  test("its clone is a machine of its own", async () => {
    await shell("head -c 3000000 /dev/urandom > /srv/data; sync; sha256sum /srv/data > /srv/data.sum");
    await run("POST", `${vm()}/clone`, { newid: 101, name: "twin", full: 1 });
    mark("cloned");
    await set({ ipconfig0: "ip=dhcp" }, 101);
    expect((await config(101))["ide2"]).toContain("local:101/vm-101-cloudinit.qcow2,media=cdrom");
    if (bootsClone) await reachClone();
    else await run("DELETE", vm(101));
  });

  async function reachClone(): Promise<void> {
    await run("POST", `${vm(101)}/status/start`);
    await untilAgentAnswers(api, vm(101));
    await vi.waitFor(async () => expect(await runByAgent(api, vm(101), "/bin/hostname")).toBe("twin\n"), {
      timeout: 15 * MINUTES,
      interval: 2_000,
    });
    const address = async (): Promise<string> => {
      const text = await runByAgent(api, vm(101), "/bin/sh", "-c", "ip -4 -o addr show dev eth0");
      return /inet (10\.[\d.]+)/.exec(text)?.[1] ?? "";
    };
    await vi.waitFor(async () => expect(await address()).toMatch(/^10\./), { timeout: 10 * MINUTES });
    const twin = { ...login, address: await address() };
    expect(twin.address).not.toBe(login.address);
    expect(await runBySsh(twin, "hostname; sudo sh -c 'cd /srv && sha256sum -c --quiet data.sum'")).toBe(
      "twin\n",
    );
    mark("the clone was reached by SSH");
    await run("POST", `${vm(101)}/status/stop`);
    await run("DELETE", vm(101));
  }

  test("it is backed up while it runs, then incrementally", async () => {
    await set({ tags: "incremental-backup" });
    const backup = { vmid: 100, storage: "local", compress: "zstd" };
    await shell("rm -f /run/story-hook");
    const log = await run("POST", `/nodes/${node}/vzdump`, backup);
    expect(await shell("cat /run/story-hook"), log).toBe("freeze\nthaw\n");
    const full = await newestBackup();
    expect(full.volid).toMatch(/^local:backup\/vzdump-qemu-100-.*\.vma\.zst$/);
    mark("backed up");
    await shell("head -c 2000000 /dev/urandom > /srv/more; sha256sum /srv/more >> /srv/data.sum; sync");
    await run("POST", `/nodes/${node}/vzdump`, backup);
    const increment = await newestBackup();
    expect(increment.volid).toMatch(/^local:backup\/vzdump-qemu-100-.*\.gpvi\.zst$/);
    expect(increment.size).toBeLessThan(full.size / 2);
    archive = increment.volid;
    mark(`backed up incrementally: ${increment.size} bytes after ${full.size}`);
  });

  test("destroyed, it comes back from its backup with its data", async () => {
    await run("POST", `${vm()}/status/shutdown`, { timeout: 600 });
    mark("shut down");
    await run("DELETE", vm(), { purge: 1 });
    expect(existsSync(join(gpve.data, "storage/local/images/100"))).toBe(false);
    await run("POST", `/nodes/${node}/qemu`, { vmid: 100, archive });
    expect((await config())["ide2"]).toContain("local:100/vm-100-cloudinit.qcow2,media=cdrom");
    mark("restored");
    await run("POST", `${vm()}/status/start`);
    const check = "hostname; sudo sh -c 'cd /srv && sha256sum -c --quiet data.sum'";
    expect(await runBySsh(login, check)).toBe("story\n");
    mark("restored and reached by SSH");
    await untilAgentAnswers(api, vm());
  });

  async function newestBackup(): Promise<{ volid: string; size: number }> {
    const rows = (await api("GET", `/nodes/${node}/storage/local/content`, { content: "backup", vmid: 100 }))
      .data as { volid: string; size: number }[];
    // Their names say when they were made.
    return rows.toSorted((a, b) => (a.volid < b.volid ? 1 : -1))[0] ?? { volid: "", size: 0 };
  }
});
