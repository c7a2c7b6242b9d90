// Clients nobody here wrote, unmodified, against a real `gpve up`.
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { nodeBinary, root, startGpve, type Gpve } from "../support/gpve.ts";

let gpve: Gpve;
beforeAll(async () => {
  gpve = await startGpve();
});
afterAll(() => gpve.stop());

const hasProxmoxer = await exec("/usr/bin/python3", ["-c", "import proxmoxer, requests"]).then(
  () => true,
  () => false,
);
if (!hasProxmoxer)
  console.warn(
    "SKIPPED: proxmoxer is missing; get it with: apt-get install python3-proxmoxer python3-requests",
  );

const walk = `
import sys, json, warnings
warnings.filterwarnings("ignore")
from proxmoxer import ProxmoxAPI
host, port, ca, how, user, secret = sys.argv[1:7]
kw = dict(port=int(port), verify_ssl=ca, timeout=20)
if how == "password":
    api = ProxmoxAPI(host, user=user, password=sys.stdin.read(), **kw)
else:
    owner, name = user.split("!")
    api = ProxmoxAPI(host, user=owner, token_name=name, token_value=sys.stdin.read(), **kw)
pool = "via-" + how
api.pools.post(poolid=pool, comment="from proxmoxer")
api.access.users.post(userid="px-%s@pve" % how, password="correct horse")
api.access.acl.put(path="/pool/" + pool, users="px-%s@pve" % how, roles="PVEPoolUser")
node = api.nodes.get()[0]["node"]
out = dict(
    version=api.version.get()["version"],
    nodes=[n["node"] for n in api.nodes.get()],
    status=sorted(api.nodes(node).status.get().keys()),
    resources=[r["type"] for r in api.cluster.resources.get()],
    access=[r["subdir"] for r in api.access.get()],
    users=[u["userid"] for u in api.access.users.get()],
    roles=len(api.access.roles.get()),
    acl=[a["ugid"] for a in api.access.acl.get()],
    pool=api.pools.get(poolid=pool)[0]["comment"],
    tasks=api.nodes(node).tasks.get(),
)
api.pools.delete(poolid=pool)
api.access.users("px-%s@pve" % how).delete()
print(json.dumps(out))
`;

describe.skipIf(!hasProxmoxer)("proxmoxer (Debian)", () => {
  const run = async (how: "password" | "token"): Promise<Record<string, unknown>> => {
    const { url, caFile, username, password, token } = gpve.credentials;
    const { hostname, port } = new URL(url);
    const [tokenId = "", secret = ""] = token.split("=");
    const [user, input] = how === "password" ? [username, password] : [tokenId, secret];
    const { stdout } = await exec("/usr/bin/python3", ["-c", walk, hostname, port, caFile, how, user, "-"], {
      input,
    });
    return JSON.parse(stdout) as Record<string, unknown>;
  };

  test.each(["password", "token"] as const)(
    "logs in by %s and walks the tree, writes included",
    async (how) => {
      expect(await run(how)).toMatchObject({
        version: expect.stringMatching(/^9\./),
        nodes: [expect.any(String)],
        status: expect.arrayContaining(["cpuinfo", "loadavg", "memory", "rootfs", "uptime"]),
        resources: expect.arrayContaining(["node"]),
        access: expect.arrayContaining(["users", "roles", "acl"]),
        users: expect.arrayContaining(["root@pam", `px-${how}@pve`]),
        roles: 22,
        acl: expect.arrayContaining([`px-${how}@pve`]),
        pool: "from proxmoxer",
      });
    },
  );
});

describe("proxmox-api (npm)", () => {
  const script = `
import proxmoxApi from "proxmox-api";
const [host, port, mode, user] = process.argv.slice(2);
let secret = "";
for await (const chunk of process.stdin) secret += chunk;
const api = mode === "password"
  ? proxmoxApi({ host, port: Number(port), username: user, password: secret })
  : proxmoxApi({ host, port: Number(port), tokenID: user, tokenSecret: secret });
const nodes = await api.nodes.$get();
const poolid = "npm-" + mode;
await api.pools.$post({ poolid, comment: "x" });
const out = {
  version: (await api.version.$get()).version,
  nodes: nodes.map((n) => n.node),
  uptime: typeof (await api.nodes.$(nodes[0].node).status.$get()).uptime,
  resources: (await api.cluster.resources.$get()).map((r) => r.type),
  users: (await api.access.users.$get()).map((u) => u.userid),
  pools: (await api.pools.$get()).map((p) => p.poolid),
};
await api.pools.$(poolid).$delete();
console.log(JSON.stringify(out));
process.exit(0);
`;

  test.each(["password", "token"] as const)("logs in by %s and walks the tree", async (mode) => {
    const { url, caFile, username, password, token } = gpve.credentials;
    const { hostname, port } = new URL(url);
    const [tokenId = "", secret = ""] = token.split("=");
    const file = join(root, "node_modules", `.proxmox-api-${process.pid}.mjs`);
    writeFileSync(file, script);
    const [user, input] = mode === "password" ? [username, password] : [tokenId, secret];
    const env = { ...MINIMAL_ENV, NODE_EXTRA_CA_CERTS: caFile };
    const { stdout } = await exec(nodeBinary, [file, hostname, port, mode, user], { input, env });
    rmSync(file);
    expect(JSON.parse(stdout)).toMatchObject({
      version: expect.stringMatching(/^9\./),
      nodes: [expect.any(String)],
      uptime: "number",
      resources: expect.arrayContaining(["node"]),
      users: expect.arrayContaining(["root@pam"]),
      pools: expect.arrayContaining([`npm-${mode}`]),
    });
  });
});
