// A token with the role tenant-admin and nothing else, on a real gpve: what PVE's clients ask for on their way through the
// life of VMs and users works inside the tenant, and nothing of it outside.
import { existsSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { waitTask } from "../support/tasks.ts";

const lacking = existsSync("/usr/bin/qemu-system-x86_64") ? undefined : "apt-get install qemu-system-x86";
if (lacking !== undefined) console.warn(`SKIPPED: administrators of tenants: ${lacking}`);

describe.skipIf(lacking !== undefined)("a token with tenant-admin", () => {
  let gpve: Gpve;
  let root: Api;
  let tenant: Api;
  let node = "";

  beforeAll(async () => {
    gpve = await startGpve();
    root = apiOf(gpve.credentials);
    node = await firstNode(root);
    const set = async (method: string, path: string, params: Record<string, string | number>) => {
      const answer = await root(method, path, params);
      expect(answer.status, answer.text).toBe(200);
      return answer.data as Record<string, unknown>;
    };
    await set("POST", "/pools", { poolid: "web" });
    await set("POST", "/pools", { poolid: "shop" });
    await set("PUT", "/pools", { poolid: "web", storage: "local" });
    await set("POST", "/access/users", { userid: "ann@pve", password: "a long secret" });
    const { value } = await set("POST", "/access/users/ann@pve/token/tofu", { privsep: 1 });
    for (const path of ["/pool/web", "/sdn/zones/localnetwork/vmbr0"])
      await set("PUT", "/access/acl", {
        path,
        roles: "tenant-admin",
        users: "ann@pve",
        tokens: "ann@pve!tofu",
      });
    tenant = apiOf({ ...gpve.credentials, token: `ann@pve!tofu=${String(value)}` });
    await work(root, "POST", `/nodes/${node}/qemu`, { vmid: 900, memory: 64, pool: "shop" });
  });
  afterAll(() => gpve.stop());

  const work = async (
    api: Api,
    method: string,
    path: string,
    params: Record<string, string | number> = {},
  ): Promise<void> => {
    const answer = await api(method, path, params);
    expect(answer.status, `${method} ${path}: ${answer.text}`).toBe(200);
    const upid: unknown = answer.data;
    if (typeof upid === "string" && upid.startsWith("UPID:"))
      expect(await waitTask(api, upid)).toMatchObject({ exitstatus: "OK" });
  };
  const seen = async (path: string, params: Record<string, string | number> = {}) => {
    const answer = await tenant("GET", path, params);
    expect(answer.status, `${path}: ${answer.text}`).toBe(200);
    return answer.data as unknown;
  };

  test("goes through the life of a VM as PVE's clients do", async () => {
    await seen("/version");
    expect(await seen("/access/roles")).toEqual(
      expect.arrayContaining([expect.objectContaining({ roleid: "tenant-admin", special: 1 })]),
    );
    expect(await seen("/access/permissions", { path: "/pool/web" })).toMatchObject({
      "/pool/web": { "VM.Allocate": 1, "VC.Allocate": 1, "Tenant.Users": 1 },
    });
    const vmid = Number(await seen("/cluster/nextid"));
    const vm = `/nodes/${node}/qemu/${vmid}`;
    await work(tenant, "POST", `/nodes/${node}/qemu`, {
      vmid,
      name: "web1",
      pool: "web",
      cores: 1,
      memory: 64,
      scsihw: "virtio-scsi-single",
      scsi0: "local:1,format=qcow2",
      net0: "virtio,bridge=vmbr0,link_down=1",
      tags: "tofu",
    });
    expect(await seen(`${vm}/config`)).toMatchObject({ name: "web1", memory: "64" });
    expect(await seen("/pools", { poolid: "web" })).toMatchObject([
      { members: expect.arrayContaining([expect.objectContaining({ vmid })]) },
    ]);
    expect((await seen("/cluster/resources", { type: "vm" })) as { vmid: number }[]).toMatchObject([
      { vmid },
    ]);
    await work(tenant, "POST", `${vm}/config`, { cores: 2, description: "changed", delete: "net0" });
    await work(tenant, "PUT", `${vm}/resize`, { disk: "scsi0", size: "2G" });
    await work(tenant, "POST", `${vm}/status/start`);
    expect(await seen(`${vm}/status/current`)).toMatchObject({ status: "running" });
    await work(tenant, "POST", `${vm}/status/stop`);
    await work(tenant, "POST", `${vm}/snapshot`, { snapname: "before" });
    await work(tenant, "DELETE", `${vm}/snapshot/before`);
    const clone = { newid: vmid + 1, name: "web2", pool: "web", full: 1 };
    await work(tenant, "POST", `${vm}/clone`, clone);
    for (const id of [vmid, vmid + 1]) await work(tenant, "DELETE", `/nodes/${node}/qemu/${id}`);
    expect(await seen("/cluster/resources", { type: "vm" })).toEqual([]);
  });

  test("makes a user with a token and rights, and takes all of it away", async () => {
    await work(tenant, "POST", "/access/users", {
      userid: "ci@pve",
      password: "another secret",
      comment: "CI",
    });
    await work(tenant, "PUT", "/access/users/ci@pve", { comment: "changed", email: "ci@example.org" });
    expect(await seen("/access/users/ci@pve")).toMatchObject({ comment: "changed" });
    await work(tenant, "POST", "/access/users/ci@pve/token/run", { privsep: 1 });
    const grant = { path: "/pool/web", roles: "vm-operator", users: "ci@pve", tokens: "ci@pve!run" };
    await work(tenant, "PUT", "/access/acl", grant);
    expect(await seen("/access/acl")).toEqual(
      expect.arrayContaining([expect.objectContaining({ ugid: "ci@pve!run", roleid: "vm-operator" })]),
    );
    await work(tenant, "PUT", "/access/acl", { ...grant, delete: 1 });
    await work(tenant, "DELETE", "/access/users/ci@pve/token/run");
    await work(tenant, "DELETE", "/access/users/ci@pve");
  });

  test.each<[string, string, Record<string, string | number>]>([
    ["GET", "/nodes/{node}/qemu/900/config", {}],
    ["POST", "/nodes/{node}/qemu/900/status/start", {}],
    ["DELETE", "/nodes/{node}/qemu/900", {}],
    ["POST", "/nodes/{node}/qemu", { vmid: 901, memory: 64 }],
    ["POST", "/nodes/{node}/qemu", { vmid: 901, memory: 64, pool: "shop" }],
    ["POST", "/nodes/{node}/qemu", { vmid: 901, memory: 64, pool: "web", net0: "virtio,bridge=vmbr1" }],
    ["PUT", "/access/acl", { path: "/vms/900", roles: "viewer", users: "ann@pve" }],
    ["POST", "/storage", { storage: "mine", type: "dir", path: "/tmp/mine", content: "iso" }],
    ["GET", "/access/users/root@pam", {}],
    ["DELETE", "/pools/shop", {}],
  ])("is refused %s %s %j", async (method, path, params) => {
    const answer = await tenant(method, path.replace("{node}", node), params);
    expect(answer.status, answer.text).toBe(403);
  });
});
