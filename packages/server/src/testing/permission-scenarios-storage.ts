// What operations on storages and networks amount to under /api2.
import { api2, changing, get, object, reading, v1, type Own, type Scenario } from "./permission-requests.ts";

export const storageScenarios: readonly [string, readonly Scenario[] | Own][] = [
  ...reading("Storage", {
    plural: "storages",
    name: "s1",
    shows: '"name":"s1"',
    list: get("/storage", '"s1"'),
    // PVE shows one definition only to who may change it, but all of them in the list to who may use them.
    get: get("/storage", '"s1"'),
  }),
  [
    "Storage create",
    [
      {
        what: "create",
        v1: v1(
          "POST",
          "/storages",
          object("Storage", "s2", { type: "dir", content: ["iso"], options: { path: "/nowhere/s2" } }),
        ),
        api2: [api2("POST", "/storage", { storage: "s2", type: "dir", content: "iso", path: "/nowhere/s2" })],
        v1Needs: ["Datastore.Audit", "Datastore.AllocateSpace"],
      },
    ],
  ],
  ...changing(
    "Storage",
    "storages",
    "s1",
    { type: "dir", content: ["backup", "iso"], options: { path: "/nowhere/s1" } },
    {
      api2: [api2("PUT", "/storage/s1", { content: "backup,iso" })],
      v1Needs: ["Datastore.Audit", "Datastore.AllocateSpace"],
    },
  ),
  [
    "Storage delete",
    [
      {
        what: "delete",
        v1: v1("DELETE", "/storages/s1"),
        api2: [api2("DELETE", "/storage/s1")],
        v1Needs: ["Datastore.Audit", "Datastore.AllocateSpace"],
      },
    ],
  ],

  ["Network list", { own: "PVE has bridges of one node, not of all" }],
  ["Network watch", { own: "PVE has bridges of one node, not of all" }],
  ["Network get", { own: "PVE has bridges of one node, not of all" }],
];
