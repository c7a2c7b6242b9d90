// OpenTofu with the bpg provider: what it applies is there, its plan is empty after that, what it destroys is gone.
import { copyFileSync, createReadStream, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { clientsFolder, skipping } from "../../support/foreign-clients.ts";
import { BUILD_MS, goPrograms, lacksGo } from "../../support/go-clients.ts";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../../support/gpve.ts";
import { tinyImage } from "../../support/images.ts";
import { runTask, type TaskCall, waitTask } from "../../support/tasks.ts";

const TEMPLATE = 8801;
const SCRATCH = 8821;
const TENANT = 8831;
const bridge = "tbr881";
const lacking =
  process.getuid?.() === 0 && existsSync("/usr/bin/qemu-system-x86_64")
    ? await lacksGo()
    : "needs root, and qemu-system-x86 from apt-get install";

interface Row {
  readonly [key: string]: unknown;
}

describe.skipIf(skipping("OpenTofu", lacking))("OpenTofu with the bpg provider", () => {
  let gpve: Gpve;
  let api: Api;
  let node = "";
  let web: Server;
  let folder = "";
  let image = "";
  let tofuProgram = "";

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-tofu-"));
    const provider = await goPrograms["terraform-provider-proxmox"]();
    tofuProgram = await goPrograms.tofu();
    const overrides = `dev_overrides { "bpg/proxmox" = ${JSON.stringify(dirname(provider))} }`;
    writeFileSync(join(folder, "tofu.rc"), `provider_installation {\n  ${overrides}\n  direct {}\n}\n`);
    image = await tinyImage();
    web = createServer((_req, res) => void createReadStream(image).pipe(res));
    await new Promise<void>((done) => web.listen(0, "127.0.0.1", done));
    // One that a killed run left is in the way.
    await exec("ip", ["link", "del", bridge], { okCodes: [0, 1] });
    await exec("ip", ["link", "add", bridge, "type", "bridge"]);
    await exec("ip", ["link", "set", bridge, "up"]);
    gpve = await startGpve();
    api = apiOf(gpve.credentials);
    node = await firstNode(api);
  }, 2 * BUILD_MS);

  afterAll(async () => {
    for (const { vmid } of await vms()) {
      const stop = await api("POST", `/nodes/${node}/qemu/${vmid}/status/stop`, { "overrule-shutdown": 1 });
      await waitTask(api, stop.data as string);
    }
    await gpve.stop();
    web.close();
    await exec("ip", ["link", "del", bridge]);
    rmSync(folder, { recursive: true, force: true });
  });

  const vms = async (): Promise<{ vmid: number }[]> =>
    (await api("GET", "/cluster/resources", { type: "vm" })).data as { vmid: number }[];

  const run = async (...call: TaskCall) => {
    expect(await runTask(api, ...call)).toMatchObject({ exitstatus: "OK" });
  };

  /** A working directory of one configuration, with its own state, and how to run OpenTofu in it. */
  const workspace = (name: string, login: Readonly<Record<string, string>>, variables: object) => {
    const place = mkdtempSync(join(folder, `${name}-`));
    copyFileSync(join(clientsFolder, "opentofu", name, "main.tf"), join(place, "main.tf"));
    const base = `http://127.0.0.1:${(web.address() as AddressInfo).port}`;
    writeFileSync(
      join(place, "terraform.tfvars.json"),
      JSON.stringify({ node, bridge, web: base, ...variables }),
    );
    const env = {
      ...MINIMAL_ENV,
      HOME: folder,
      TMPDIR: folder,
      CHECKPOINT_DISABLE: "1",
      TF_CLI_CONFIG_FILE: join(folder, "tofu.rc"),
      TF_IN_AUTOMATION: "1",
      SSL_CERT_FILE: gpve.credentials.caFile,
      PROXMOX_VE_ENDPOINT: `${gpve.credentials.url}/`,
      ...login,
    };
    const run = (changed: boolean, args: readonly string[]) =>
      exec(tofuProgram, [...args, "-no-color", "-input=false", `-var=changed=${changed}`], {
        cwd: place,
        env,
        timeoutMs: 300_000,
        okCodes: [0, 1, 2],
      });
    const tofu = async (changed: boolean, ...args: string[]): Promise<string> => {
      const { code, stdout, stderr } = await run(changed, args);
      // A plan with differences ends with 2: then the differences are the failure's text.
      expect(code, stdout + stderr).toBe(0);
      return stdout;
    };
    return {
      /** What it said when it could not. */
      refused: async (): Promise<string> => {
        const { code, stdout, stderr } = await run(false, ["apply", "-auto-approve"]);
        expect(code, stdout + stderr).toBe(1);
        return stderr.replaceAll(/[\s│]+/g, " ");
      },
      apply: (changed: boolean) => tofu(changed, "apply", "-auto-approve"),
      emptyPlan: (changed: boolean) => tofu(changed, "plan", "-detailed-exitcode"),
      destroy: (changed: boolean) => tofu(changed, "destroy", "-auto-approve"),
      output: async (): Promise<Row> => {
        const { stdout } = await exec(tofuProgram, ["output", "-json", "seen"], { cwd: place, env });
        return JSON.parse(stdout) as Row;
      },
    };
  };

  test("a template cloned, changed and destroyed, with pool, role, user and rights", async () => {
    const local = `/nodes/${node}/storage/local`;
    const { port } = web.address() as AddressInfo;
    const source = { content: "import", filename: "tiny.qcow2", url: `http://127.0.0.1:${port}/tiny.qcow2` };
    await run("POST", `${local}/download-url`, source);
    // What the provider never sets on a clone it takes from the template.
    await run("POST", `/nodes/${node}/qemu`, {
      vmid: TEMPLATE,
      name: "template",
      memory: 128,
      machine: "q35",
      ostype: "l26",
      agent: "1",
      vga: "std,memory=16",
      scsihw: "virtio-scsi-single",
      scsi0: "local:0,import-from=local:import/tiny.qcow2,format=qcow2,discard=on",
      serial0: "socket",
      boot: "order=scsi0",
    });
    await run("POST", `/nodes/${node}/qemu/${TEMPLATE}/template`);
    const story = workspace(
      "story",
      { PROXMOX_VE_USERNAME: gpve.credentials.username, PROXMOX_VE_PASSWORD: gpve.credentials.password },
      { template: TEMPLATE },
    );
    const clone = `/nodes/${node}/qemu/${TEMPLATE + 1}`;
    await story.apply(false);
    await story.emptyPlan(false);
    expect((await api("GET", `${clone}/status/current`)).data).toMatchObject({
      status: "running",
      name: "tofu-clone",
    });
    const { data: made } = await api("GET", `${clone}/config`);
    expect(made).toMatchObject({ cores: 1, memory: "128", tags: "tofu", ciuser: "admin" });
    expect(made["scsi0"]).toContain("size=2G");
    expect((await api("GET", "/pools", { poolid: "tofu-lab" })).data).toMatchObject([
      { members: [{ id: `qemu/${TEMPLATE + 1}` }] },
    ]);
    await story.apply(true);
    await story.emptyPlan(true);
    const { data: changed } = await api("GET", `${clone}/config`);
    expect(changed).toMatchObject({ cores: 2, memory: "192", tags: "blue;tofu", name: "tofu-renamed" });
    expect(changed["scsi0"]).toContain("size=3G");
    expect(changed["net1"]).toContain("link_down=1");
    const interfaces = await api("GET", `${clone}/agent/network-get-interfaces`);
    expect(interfaces.text).toContain("10.88.0.3");
    await story.destroy(true);
    expect(await vms()).toMatchObject([{ vmid: TEMPLATE }]);
    const left = (await api("GET", `${local}/content`)).data as { volid: string }[];
    expect(left.map((row) => row.volid)).toEqual([
      `local:${TEMPLATE}/base-${TEMPLATE}-disk-0.qcow2`,
      "local:import/tiny.qcow2",
    ]);
    for (const path of ["/access/users", "/access/groups", "/access/roles", "/access/acl", "/pools"])
      expect((await api("GET", path)).text.toLowerCase()).not.toContain("tofu");
  }, 600_000);

  test("a VM with every kind of device, files, options, mappings and all data sources, by token", async () => {
    const iso = join(folder, "small.iso");
    writeFileSync(iso, Buffer.alloc(700_000, "x"));
    const wide = workspace(
      "wide",
      { PROXMOX_VE_API_TOKEN: gpve.credentials.token },
      { vmid: SCRATCH, image, iso },
    );
    await wide.apply(false);
    await wide.emptyPlan(false);
    expect(await wide.output()).toMatchObject({
      nodes: [node],
      vms: ["tofu-scratch"],
      vm: "tofu-scratch",
      datastores: ["local"],
      users: true,
      mappings: ["tofu-usb"],
    });
    const vm = `/nodes/${node}/qemu/${SCRATCH}`;
    await run("POST", `${vm}/status/start`);
    await run("POST", `${vm}/status/stop`);
    await wide.apply(true);
    await wide.emptyPlan(true);
    const { data: changed } = await api("GET", `${vm}/config`);
    expect(changed).toMatchObject({ memory: "512", bios: "ovmf", net0: expect.stringContaining("queues=2") });
    expect(changed["virtio0"]).toContain("size=2G");
    expect(changed["sata0"]).toContain("size=1G");
    await wide.destroy(true);
    expect((await api("GET", `${vm}/config`)).status).toBe(500);
    const left = (await api("GET", `/nodes/${node}/storage/local/content`)).text;
    expect(left).not.toContain(String(SCRATCH));
    expect(left).not.toContain("tofu");
  });

  test("a VM and its user inside a tenant, by a token with tenant-admin alone, which reaches nothing else", async () => {
    const set = async (method: string, path: string, params: Record<string, string | number>) => {
      const answer = await api(method, path, params);
      expect(answer.status, answer.text).toBe(200);
      return answer.data as Row;
    };
    await set("POST", "/pools", { poolid: "web" });
    await set("POST", "/pools", { poolid: "shop" });
    await set("PUT", "/pools", { poolid: "web", storage: "local" });
    await set("POST", "/access/users", { userid: "ann@pve" });
    const { value } = await set("POST", "/access/users/ann@pve/token/tofu", { privsep: 1 });
    for (const path of ["/pool/web", `/sdn/zones/localnetwork/${bridge}`])
      await set("PUT", "/access/acl", {
        path,
        roles: "tenant-admin",
        users: "ann@pve",
        tokens: "ann@pve!tofu",
      });
    await run("POST", `/nodes/${node}/qemu`, { vmid: TENANT + 9, memory: 64, pool: "shop" });
    const login = { PROXMOX_VE_API_TOKEN: `ann@pve!tofu=${String(value)}` };

    const tenant = workspace("tenant", login, { vmid: TENANT, pool: "web" });
    const vm = `/nodes/${node}/qemu/${TENANT}`;
    await tenant.apply(false);
    await tenant.emptyPlan(false);
    expect((await api("GET", `${vm}/status/current`)).data).toMatchObject({ status: "running", name: "web" });
    expect((await api("GET", "/pools", { poolid: "web" })).text).toContain(`"qemu/${TENANT}"`);
    await tenant.apply(true);
    await tenant.emptyPlan(true);
    expect((await api("GET", "/access/users/tofu-web@pve")).data).toMatchObject({ comment: "changed" });
    await tenant.destroy(true);

    const others = workspace("tenant", login, { vmid: TENANT + 1, pool: "shop" });
    const refused = await others.refused();
    // The user himself is his to make, what he is given is not.
    expect(refused).toMatch(/403 [^)]*Permission check failed \(\/pool\/shop, /);
    expect(refused.match(/Permission check failed/g)?.length).toBeGreaterThanOrEqual(2);
    await others.destroy(false);
    const thief = workspace("tenant", login, { vmid: TENANT + 2, pool: "web", clones: [TENANT + 9] });
    expect(await thief.refused()).toMatch(/403 .*VM\.Clone/);
    await thief.destroy(false);
    expect(await vms()).toEqual(expect.arrayContaining([expect.objectContaining({ vmid: TENANT + 9 })]));
    for (const vmid of [TENANT, TENANT + 1, TENANT + 2])
      expect(await vms()).not.toContainEqual(expect.objectContaining({ vmid }));
    expect((await api("GET", "/access/users")).text).not.toContain("tofu-");
    await run("DELETE", `/nodes/${node}/qemu/${TENANT + 9}`);
  });
});
