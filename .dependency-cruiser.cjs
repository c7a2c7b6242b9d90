// The dependency rule: who may import whom. Imports point inward; `compose.ts` joins the layers.
const runtime = (pkg) => `^packages/${pkg}/src/`;
const only = (name, from, allowed, comment) => ({
  name,
  comment,
  severity: "error",
  from: { path: from, pathNot: "\\.test\\.ts$|/testing/" },
  to: { path: "^packages/", pathNot: allowed },
});
const own = (pkg) => `^packages/${pkg}/`;
const layers = (pkg) => [
  only(
    `${pkg}-domain-free`,
    `${runtime(pkg)}application/`,
    [
      own("domain"),
      own("kit"),
      own("contracts"),
      "^packages/store/src/(records/)?port\\.ts$",
      `${runtime(pkg)}application/`,
    ],
    "application: domain, kit, contracts, the store's port",
  ),
  only(
    `${pkg}-infrastructure`,
    `${runtime(pkg)}infrastructure/`,
    [own("domain"), own("kit"), own("contracts"), own("store"), `${runtime(pkg)}infrastructure/`],
    "infrastructure implements ports, never calls upward",
  ),
  only(
    `${pkg}-presentation`,
    `${runtime(pkg)}presentation/`,
    [own("domain"), own("kit"), own("contracts"), `${runtime(pkg)}(application|presentation)/`],
    "presentation: application and the vocabulary",
  ),
];
module.exports = {
  forbidden: [
    { name: "no-circular", severity: "error", from: {}, to: { circular: true } },
    only("contracts-import-nothing", own("contracts"), [own("contracts")], "contracts are the wire truth"),
    only("domain-is-pure", own("domain"), [own("domain"), own("contracts")], "domain: domain and contracts"),
    only("kit", own("kit"), [own("kit"), own("contracts")], "kit: contracts only"),
    only(
      "store",
      own("store"),
      [own("store"), own("kit"), own("contracts")],
      "store knows nothing of gpve's records",
    ),
    only("client", own("client"), [own("client"), own("contracts")], "client: contracts"),
    only(
      "talos",
      own("talos"),
      [own("talos"), own("client"), own("contracts"), own("kit")],
      "talos reaches the platform by the public client alone",
    ),
    only(
      "cli",
      own("cli"),
      [own("cli"), own("client"), own("contracts"), own("domain"), own("store"), own("kit"), own("talos")],
      "cli imports nothing of server or agent",
    ),
    {
      name: "no-unresolvable",
      comment:
        "an import that cannot be resolved would escape every other rule; foreign clients live in a cache",
      severity: "error",
      from: { pathNot: "^test/integration/clients/(npm|kubernetes)/" },
      to: { couldNotResolve: true },
    },
    {
      name: "domain-no-node",
      severity: "error",
      from: { path: own("domain"), pathNot: "\\.test\\.ts$|/testing/" },
      to: { dependencyTypes: ["core"] },
    },
    {
      name: "domain-no-npm",
      severity: "error",
      from: { path: own("domain"), pathNot: "\\.test\\.ts$|/testing/" },
      to: { path: "(^|/)node_modules/(?!@gpve/)" },
    },
    {
      name: "contracts-no-node",
      comment: "browsers read the contracts",
      severity: "error",
      from: { path: own("contracts"), pathNot: "\\.test\\.ts$" },
      to: { dependencyTypes: ["core"] },
    },
    {
      name: "guest-knows-no-kind",
      comment: "what any guest has is not written for one kind: kinds come in by ports",
      severity: "error",
      from: { path: "^packages/agent/src/application/guest/", pathNot: "\\.test\\.ts$" },
      to: { path: "^packages/agent/src/application/qemu/" },
    },
    {
      name: "guest-model-knows-no-kind",
      comment:
        "the same of the model; guest-kinds.ts is the table of them, and a move's wire says how RAM is sent, which only VMs have so far",
      severity: "error",
      from: {
        path: "^packages/domain/src/guest/",
        pathNot: "\\.test\\.ts$|/testing/|/guest-kinds\\.ts$|/move-channel\\.ts$",
      },
      to: { path: "^packages/domain/src/(vm|container)/" },
    },
    {
      name: "agent-without-server",
      comment: "what runs on a node needs nothing of the server; what both use is the domain's",
      severity: "error",
      from: { path: "^packages/agent/src/|^packages/bin/src/commands/agent\\.ts$", pathNot: "\\.test\\.ts$" },
      to: { path: "^packages/server/", reachable: true },
    },
    {
      name: "application-no-io",
      comment: "use cases reach the machine by ports; computing with node's own code is no reaching",
      severity: "error",
      from: { path: "^packages/(server|agent)/src/application/", pathNot: "\\.test\\.ts$" },
      to: { dependencyTypes: ["core"], pathNot: "^(node:)?(crypto|events|stream|util)$" },
    },
    {
      name: "application-no-npm",
      comment: "libraries are infrastructure's; the checker of JSON Schema does no more than compute",
      severity: "error",
      from: {
        path: "^packages/(server|agent)/src/application/",
        pathNot: "\\.test\\.ts$|^packages/server/src/application/v1/validation\\.ts$",
      },
      to: { path: "(^|/)node_modules/(?!@gpve/)" },
    },
    {
      name: "presentation-no-files",
      comment: "presentation speaks with peers, not with the machine",
      severity: "error",
      from: { path: "^packages/(server|agent)/src/presentation/", pathNot: "\\.test\\.ts$" },
      to: { dependencyTypes: ["core"], path: "^(node:)?(fs|child_process|dgram|worker_threads)(/|$)" },
    },
    {
      name: "npm-declared",
      comment: "a package declares what it imports; what only tests need is a devDependency",
      severity: "error",
      from: { path: "^packages/", pathNot: "\\.test\\.ts$|/testing/" },
      to: { dependencyTypes: ["npm-no-pkg", "npm-unknown", "npm-dev"] },
    },
    ...layers("server"),
    ...layers("agent"),
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    // swc, which reads TypeScript here, does not know `using` yet; tests may import what they like anyway.
    exclude: { path: "(^|/)gen/|\\.test\\.ts$" },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["import", "node", "default"],
      extensions: [".ts", ".js", ".json"],
    },
    parser: "swc",
  },
};
