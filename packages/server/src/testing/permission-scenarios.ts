// What each operation of /api/v1 amounts to under /api2. An operation without a line here fails the comparison.
import {
  api2,
  changing,
  get,
  object,
  reading,
  v1,
  type Own,
  type Request,
  type Scenario,
} from "./permission-requests.ts";
import { storageScenarios } from "./permission-scenarios-storage.ts";
import type { Answer } from "./two-faces.ts";
import { UPID } from "./two-faces.ts";

const VM = "/nodes/n1/qemu/100";
const patchVm = (body: object, vmid = 100) => v1("PATCH", `/virtualmachines/${vmid}`, body);
const shown = ["VM.Audit"];

const putUser = api2("PUT", "/access/users/u1@pve", { comment: "x", groups: "g1" });
const addUser = api2("POST", "/access/users", { userid: "u2@pve", groups: "g1" });
const acl = { path: "/vms/102", roles: "r1", users: "u1@pve" };
const grant = { path: "/vms/102", role: "r1", subjects: [{ kind: "User", name: "u1@pve" }] };
const binding = encodeURIComponent("r1@/vms/100");
const changed = {
  path: "/vms/100",
  role: "r1",
  subjects: [{ kind: "User", name: "u1@pve", propagate: false }],
};
const acl100 = { path: "/vms/100", roles: "r1", users: "u1@pve" };
const image = {
  content: "import",
  url: "https://example.org/a.qcow2",
  filename: "a.qcow2",
};
const CLUSTERS = "PVE has no virtual clusters: VC.* on the tenant's pool, judged again by the agent's route";
const PLANS =
  "PVE makes no plans of moves; needs Sys.Audit on /nodes to see them, Sys.Modify there and VM.Migrate on /vms to make them";
const PLACES = "PVE places nothing";
const QUOTAS = "PVE bounds no pool: quotas are read with their pool and changed from above it";
const EVENTS = "ours alone: /cluster/log has lines for people";

export const equivalents: ReadonlyMap<string, readonly Scenario[] | Own> = new Map<
  string,
  readonly Scenario[] | Own
>([
  ...reading("VirtualMachine", {
    plural: "virtualmachines",
    name: "100",
    shows: '"name":"100"',
    list: get("/nodes/n1/qemu", '"vmid":100'),
    get: get(`${VM}/config`),
  }),
  [
    "VirtualMachine create",
    [
      {
        what: "create",
        v1: v1("POST", "/virtualmachines", object("VirtualMachine", "101", { config: { cores: "2" } })),
        api2: [api2("POST", "/nodes/n1/qemu", { vmid: 101, cores: 2 })],
      },
      {
        what: "create and start, with a disk and a card",
        v1: v1(
          "POST",
          "/virtualmachines",
          object("VirtualMachine", "101", {
            running: true,
            config: { scsi0: "local:1", net0: "virtio,bridge=vmbr0" },
          }),
        ),
        api2: [
          api2("POST", "/nodes/n1/qemu", {
            vmid: 101,
            start: 1,
            scsi0: "local:1",
            net0: "virtio,bridge=vmbr0",
          }),
        ],
      },
      {
        what: "create with a label",
        v1: v1("POST", "/virtualmachines", object("VirtualMachine", "101", { config: {} }, { tier: "a" })),
        api2: [api2("POST", "/nodes/n1/qemu", { vmid: 101, description: "a" })],
      },
    ],
  ],
  [
    "VirtualMachine patch",
    [
      {
        what: "start",
        v1: patchVm({ spec: { running: true } }),
        api2: [api2("POST", `${VM}/status/start`)],
        v1Needs: shown,
      },
      {
        what: "stop",
        v1: patchVm({ spec: { running: false } }, 102),
        api2: [api2("POST", "/nodes/n1/qemu/102/status/shutdown", { forceStop: 1 })],
        v1Needs: shown,
      },
      {
        what: "label",
        v1: patchVm({ metadata: { labels: { tier: "b" } } }),
        api2: [api2("PUT", `${VM}/config`, { description: "b" })],
        v1Needs: shown,
      },
      {
        what: "annotate",
        v1: patchVm({ metadata: { annotations: { note: "b" } } }),
        api2: [api2("PUT", `${VM}/config`, { description: "b" })],
        v1Needs: shown,
      },
      {
        what: "a key, and start",
        v1: patchVm({ spec: { running: true, config: { cores: "4" } } }),
        api2: [api2("PUT", `${VM}/config`, { cores: 4 }), api2("POST", `${VM}/status/start`)],
        v1Needs: shown,
      },
      ...["agent", "ciuser", "cores", "description", "memory", "net0", "onboot", "scsi0", "tags", "vga"].map(
        (key) => ({
          what: `remove ${key}`,
          v1: patchVm({ spec: { config: { [key]: null } } }),
          api2: [api2("PUT", `${VM}/config`, { delete: key })],
          v1Needs: shown,
        }),
      ),
    ],
  ],
  [
    "VirtualMachine replace",
    [
      {
        what: "replace",
        v1: v1(
          "PUT",
          "/virtualmachines/100",
          object("VirtualMachine", "100", { node: "n1", running: true, config: { cores: "2" } }),
        ),
        api2: [
          api2("PUT", `${VM}/config`, {
            delete: "agent,boot,ciuser,description,ide2,memory,net0,onboot,scsi0,tags,vga",
          }),
          api2("POST", `${VM}/status/start`),
        ],
        v1Needs: shown,
      },
    ],
  ],
  [
    "VirtualMachine apply",
    [
      {
        what: "apply a start",
        v1: v1("POST", "/apply", {
          objects: [object("VirtualMachine", "102", { running: false, config: {} })],
        }),
        api2: [
          api2("PUT", "/nodes/n1/qemu/102/config", {
            delete: "agent,ciuser,cores,description,ide2,memory,net0,onboot,scsi0,tags,vga",
          }),
          api2("POST", "/nodes/n1/qemu/102/status/shutdown", { forceStop: 1 }),
        ],
        v1Needs: shown,
      },
      {
        what: "apply a new one",
        v1: v1("POST", "/apply", {
          objects: [object("VirtualMachine", "101", { running: true, config: { cores: "2" } })],
        }),
        api2: [api2("POST", "/nodes/n1/qemu", { vmid: 101, start: 1, cores: 2 })],
      },
    ],
  ],
  [
    "VirtualMachine plan",
    // Changes nothing; it shows what is there.
    [
      {
        what: "plan",
        v1: v1("POST", "/plan", { objects: [object("VirtualMachine", "100", { config: { cores: "2" } })] }),
        api2: [get(`${VM}/config`)],
        v1Needs: ["VM.Config.CPU", "VM.PowerMgmt", "VM.Config.Options", "VM.Config.Disk"],
      },
    ],
  ],
  [
    "VirtualMachine delete",
    [
      {
        what: "delete",
        v1: v1("DELETE", "/virtualmachines/100"),
        api2: [api2("DELETE", VM)],
        v1Needs: shown,
      },
    ],
  ],

  ...reading("Tenant", {
    plural: "tenants",
    name: "t1",
    shows: '"name":"t1"',
    list: get("/pools", '"t1"'),
    get: get("/pools/t1"),
  }),
  [
    "Tenant create",
    [
      {
        what: "create",
        v1: v1("POST", "/tenants", object("Tenant", "t2", {})),
        api2: [api2("POST", "/pools", { poolid: "t2" })],
      },
    ],
  ],
  ...changing(
    "Tenant",
    "tenants",
    "t1",
    { comment: "x" },
    {
      api2: [api2("PUT", "/pools/t1", { comment: "x" })],
      v1Needs: ["Pool.Audit"],
    },
  ),
  [
    "Tenant delete",
    [
      {
        what: "delete",
        v1: v1("DELETE", "/tenants/t1"),
        api2: [api2("DELETE", "/pools/t1")],
        v1Needs: ["Pool.Audit"],
      },
    ],
  ],

  ...reading("Node", {
    plural: "nodes",
    name: "n1",
    shows: '"name":"n1"',
    list: get("/nodes/n1/status"),
    get: get("/nodes/n1/status"),
  }),
  ...changing(
    "Node",
    "nodes",
    "n1",
    { taints: ["a"] },
    {
      api2: [api2("PUT", "/nodes/n1/dns", { search: "x" })],
      v1Needs: ["Sys.Audit"],
    },
  ),

  ["Node delete", { own: "PVE's nodes are removed on a console; needs Sys.Modify on / and /nodes" }],

  ...reading("User", {
    plural: "users",
    name: "u1@pve",
    shows: '"name":"u1@pve"',
    list: get("/access/users", "u1@pve"),
    get: get("/access/users/u1@pve"),
  }),
  [
    "User create",
    [
      {
        what: "create",
        v1: v1("POST", "/users", object("User", "u2@pve", { groups: ["g1"] })),
        api2: [addUser],
      },
    ],
  ],
  ...changing("User", "users", "u1@pve", { comment: "x", groups: ["g1"] }, { api2: [putUser] }),
  [
    "User delete",
    [{ what: "delete", v1: v1("DELETE", "/users/u1@pve"), api2: [api2("DELETE", "/access/users/u1@pve")] }],
  ],

  ...storageScenarios,

  ...reading("Role", {
    plural: "roles",
    name: "r1",
    shows: '"name":"r1"',
    list: get("/access/roles", '"r1"'),
    get: get("/access/roles/r1"),
  }),
  [
    "Role create",
    [
      {
        what: "create",
        v1: v1("POST", "/roles", object("Role", "r2", { privileges: ["VM.Audit"] })),
        api2: [api2("POST", "/access/roles", { roleid: "r2", privs: "VM.Audit" })],
      },
    ],
  ],
  ...changing(
    "Role",
    "roles",
    "r1",
    { privileges: ["VM.Audit", "VM.Console"] },
    {
      api2: [api2("PUT", "/access/roles/r1", { privs: "VM.Audit,VM.Console" })],
    },
  ),
  [
    "Role delete",
    [{ what: "delete", v1: v1("DELETE", "/roles/r1"), api2: [api2("DELETE", "/access/roles/r1")] }],
  ],

  ...reading("Binding", {
    plural: "bindings",
    name: "r1@/vms/100",
    shows: '"name":"r1@/vms/100"',
    list: get("/access/acl", '"u1@pve"'),
    get: get("/access/acl", '"u1@pve"'),
  }),
  [
    "Binding create",
    [
      {
        what: "create",
        v1: v1("POST", "/bindings", object("Binding", undefined, grant)),
        api2: [api2("PUT", "/access/acl", acl)],
      },
    ],
  ],
  [
    "Binding replace",
    [
      {
        what: "replace",
        v1: v1("PUT", `/bindings/${binding}`, object("Binding", undefined, changed)),
        api2: [api2("PUT", "/access/acl", { ...acl100, propagate: 0 })],
      },
    ],
  ],
  [
    "Binding patch",
    [
      {
        what: "patch",
        v1: v1("PATCH", `/bindings/${binding}`, { spec: { subjects: changed.subjects } }),
        api2: [api2("PUT", "/access/acl", { ...acl100, propagate: 0 })],
      },
    ],
  ],
  [
    "Binding apply",
    [
      {
        what: "apply",
        v1: v1("POST", "/apply", { objects: [object("Binding", undefined, grant)] }),
        api2: [api2("PUT", "/access/acl", acl)],
      },
    ],
  ],
  [
    "Binding plan",
    [
      {
        what: "plan",
        v1: v1("POST", "/plan", { objects: [object("Binding", undefined, grant)] }),
        api2: [api2("PUT", "/access/acl", acl)],
      },
    ],
  ],
  [
    "Binding delete",
    [
      {
        what: "delete",
        v1: v1("DELETE", `/bindings/${binding}`),
        api2: [api2("PUT", "/access/acl", { ...acl100, delete: 1 })],
      },
    ],
  ],

  ...reading("Task", {
    plural: "tasks",
    name: UPID,
    shows: '"name":"UPID',
    list: get("/nodes/n1/tasks", UPID),
    get: get(`/nodes/n1/tasks/${UPID}/status`),
  }),
  ...["list", "get", "watch", "create", "replace", "patch", "delete", "plan", "apply"].map(
    (verb): [string, Own] => [`ResourceQuota ${verb}`, { own: QUOTAS }],
  ),
  ...["list", "get", "watch", "create", "replace", "patch", "delete", "plan", "apply"].map(
    (verb): [string, Own] => [`VirtualCluster ${verb}`, { own: CLUSTERS }],
  ),
  ...["list", "get", "watch", "create", "replace", "patch", "delete"].map((verb): [string, Own] => [
    `RebalancePlan ${verb}`,
    { own: PLANS },
  ]),
  [
    "explainVmPlacement",
    { own: `${PLACES}; needs VM.Audit on the VM, and names nodes to Sys.Audit on /nodes` },
  ],
  ["reservePlace", { own: `${PLACES}; needs VM.Allocate on the VM or the pool, as its creation does` }],
  ["simulatePlace", { own: `${PLACES}; needs Sys.Audit on /nodes` }],
  ["simulateNodeLoss", { own: `${PLACES}; needs Sys.Audit on /nodes` }],
  ["failoverVm", { own: "PVE moves a configuration file by hand as root; needs VM.Migrate on the VM" }],
  ["vmTunnel", { own: "PVE has no lines to ports of guests; a websocket, needs VM.Console on the VM" }],
  ["haEvidence", { own: "PVE has it in each node's syslog; needs Sys.Audit on /" }],
  ["haMaintenance", { own: "PVE has it as a command of root's; needs Sys.Console on /" }],
  ...[
    "vclusterKubeconfig",
    "listVclusterKubeconfigs",
    "explainVclusterPlacement",
    "revokeVclusterKubeconfig",
    "startVcluster",
    "stopVcluster",
    "retryVcluster",
    "scaleVcluster",
    "patchVclusterScale",
    "vclusterEvents",
    "vclusterPodMapping",
    "sleepVcluster",
    "wakeVcluster",
    "vclusterLogs",
    "backupVcluster",
    "listVclusterBackups",
    "restoreVcluster",
    "restoreTenantVcluster",
    "upgradeVcluster",
    "migrateVcluster",
    "rotateVclusterCa",
  ].map((operation): [string, Own] => [operation, { own: CLUSTERS }]),
  ["Event list", { own: EVENTS }],
  ["Event get", { own: EVENTS }],
  ["Event watch", { own: EVENTS }],

  ["discover", { own: "says what this server is" }],
  ["health", { own: "says that it lives" }],
  ["ready", { own: "says that it works" }],
  ["openapi", { own: "a document" }],
  ["openapiPve", { own: "a document" }],
  ["coverage", { own: "a table of methods" }],
  ["listAudit", { own: "PVE has no audit log; needs Sys.Audit on /" }],
  ["verifyAudit", { own: "PVE has no audit log; needs Sys.Audit on /" }],
  [
    "showDefaults",
    { own: "names of what is taken where a request is silent; what it leads to is judged there" },
  ],
  [
    "createServerJoinToken",
    { own: "PVE's servers are its nodes; needs Sys.Modify and Permissions.Modify on /, and to be root" },
  ],
  ["listStoreMembers", { own: "PVE has no etcd; needs Sys.Audit on /" }],
  ["removeStoreMember", { own: "PVE has no etcd; needs Sys.Modify on /" }],
  ["createJoinToken", { own: "PVE's nodes join with root's password; needs Sys.Modify on / and /nodes" }],
  ["probeNode", { own: "PVE tries nothing; needs Sys.Modify on the node" }],
  [
    "cancelTask",
    [
      {
        what: "cancel",
        v1: v1("POST", `/tasks/${encodeURIComponent(UPID)}/cancel`),
        api2: [api2("DELETE", `/nodes/n1/tasks/${UPID}`)],
      },
    ],
  ],
  [
    "taskLog",
    [
      {
        what: "log",
        v1: v1("GET", `/tasks/${encodeURIComponent(UPID)}/log`),
        api2: [get(`/nodes/n1/tasks/${UPID}/log`)],
      },
    ],
  ],
  [
    "nodeCapabilities",
    [{ what: "capabilities", v1: v1("GET", "/nodes/n1/capabilities"), api2: [get("/nodes/n1/status")] }],
  ],
  [
    "nodeImages",
    [
      {
        what: "images",
        v1: v1("GET", "/nodes/n1/images"),
        api2: [get("/nodes/n1/storage/local/content")],
      },
    ],
  ],
  ...(["pull", "build"] as const).map((verb): [string, Scenario[]] => [
    `${verb}Image`,
    [
      {
        what: verb,
        v1: v1("POST", `/nodes/n1/images/debian-12/${verb}`),
        api2: [api2("POST", "/nodes/n1/storage/local/download-url", image)],
        v1Needs: ["Sys.Modify"],
      },
    ],
  ]),
  ["nodeVclusterPods", { own: "PVE has no pods; needs Sys.Audit on the node" }],
  ["nodeComponents", { own: "PVE has no components; needs Sys.Audit on the node" }],
  ["installComponent", { own: "PVE has no components; needs Sys.Modify on the node and the network" }],
  ["verifyComponent", { own: "PVE has no components; needs Sys.Audit on the node" }],
  ["importComponent", { own: "PVE has no components; root@pam only, judged by the agent's route" }],
  [
    "backupVm",
    [
      {
        what: "backup",
        v1: v1("POST", "/nodes/n1/vms/100/backup", { storage: "local" }),
        api2: [api2("POST", "/nodes/n1/vzdump", { vmid: "100", storage: "local" })],
      },
    ],
  ],
  [
    "retryVm",
    [
      {
        what: "retry",
        v1: v1("POST", "/nodes/n1/vms/100/retry"),
        api2: [api2("POST", "/nodes/n1/qemu/100/status/start")],
      },
    ],
  ],
  [
    "resetVmState",
    [
      {
        what: "reset-state",
        v1: v1("POST", "/nodes/n1/vms/100/reset-state"),
        api2: [api2("POST", "/nodes/n1/qemu/100/status/start")],
      },
    ],
  ],
  [
    "vmScreenshot",
    [
      {
        what: "screenshot",
        v1: v1("GET", "/nodes/n1/vms/100/screenshot"),
        api2: [api2("POST", `${VM}/vncproxy`)],
      },
    ],
  ],
  ["vmLog", [{ what: "log", v1: v1("GET", "/nodes/n1/vms/100/log"), api2: [get(`${VM}/status/current`)] }]],
]);

export function isRefused(request: Request, answer: Answer): boolean {
  if (answer.status === 403) return true;
  return answer.status === 200 && request.shows !== undefined && !answer.text.includes(request.shows);
}
