import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import { wholeNumber } from "../../input.ts";
import { vcArgument, type VcName, vcNamed, vcObject, vcWords } from "./find-vc.ts";
import { untilRunning, untilTold } from "./until-running.ts";

export const vcCreate: CommandSpec = {
  name: "vc create",
  summary: "make a virtual cluster: a Kubernetes of its own",
  details:
    "Where its node lacks the version of Kubernetes, that is brought first: fetched in about a minute, or built from Go modules in about ten. That is told, and with --wait all of the work as it goes on.",
  arguments: [vcArgument],
  options: [
    { flags: "--tenant <tenant>", about: "the tenant it belongs to (default)" },
    { flags: "--kubernetes-version <version>", about: "1.36 or 1.36.4 (the newest there is)" },
    { flags: "--tier <tier>", about: "Starter, Standard, Performance or Enterprise (Starter)" },
    { flags: "--backing-store <store>", about: "sqlite or etcd (as the tier has it); external by `apply`" },
    { flags: "--workers <count>", about: "how many workers (0)", parse: wholeNumber(0, 1000) },
    {
      flags: "--isolation <level>",
      about:
        "of its workers: L1 (namespaces), L2 (pods in Kata, where the node has it) or L3 (machines) (L1)",
    },
    {
      flags: "--privileged",
      about: "let its pods be root of their workers, which on L1 is root of the node",
    },
    { flags: "--ingress <controller>", about: "traefik: serves its Ingresses (none)" },
    {
      flags: "--volumes-on <storage>",
      about: "the storage for its persistent volumes (its workers' folders)",
    },
    {
      flags: "--volume-quota <size>",
      about:
        "what its persistent volumes may ask for together: 20Gi (no bound; nothing where a quota bounds the tenant's storage)",
    },
    { flags: "--asleep", about: "make it asleep: it starts for the first time when somebody connects" },
    { flags: "--spread", about: "deal its workers out to the nodes, in one network" },
    { flags: "--node <name>", about: "the node that shall have it (where the scheduler says)" },
    { flags: "--wait", about: "return when it runs, and show every phase on the way" },
  ],
  examples: ["vc create demo --wait", "vc create shop --tenant shop --kubernetes-version 1.36"],
  doing: (input) => `create virtual cluster ${input.arg("name")}`,
  run: async (cli, input) => {
    const named = vcNamed(input);
    const { name } = named;
    const { v1 } = await cli.client();
    const controlPlane = given({ tier: input.text("tier"), backingStore: input.text("backingStore") });
    const count = input.number("workers");
    const isPrivileged = input.flag("privileged");
    const ingress = input.text("ingress");
    const storage = input.text("volumesOn");
    const volumeQuota = input.text("volumeQuota");
    const wanted = {
      apiVersion: "gpve.io/v1",
      kind: "VirtualCluster",
      metadata: { name, ...given({ namespace: named.tenant }) },
      spec: {
        ...given({
          kubernetesVersion: input.text("kubernetesVersion"),
          isolationLevel: input.text("isolation"),
          node: input.text("node"),
        }),
        ...(Object.keys(controlPlane).length === 0 ? {} : { controlPlane }),
        ...(ingress === undefined ? {} : { networking: { ingress } }),
        ...(storage === undefined ? {} : { volumes: { storage } }),
        ...(volumeQuota === undefined ? {} : { quota: { storage: volumeQuota } }),
        ...(input.flag("asleep") ? { sleep: { fromStart: true } } : {}),
        ...(input.flag("spread") ? { scheduling: { spread: true } } : {}),
        ...(count === undefined && !isPrivileged
          ? {}
          : { workerNodes: { ...given({ count }), ...(isPrivileged ? { privileged: true } : {}) } }),
      },
    } as const;
    const made = await v1.create("vclusters", wanted).catch((err: unknown) => orWhere(cli, named, err));
    const { namespace: tenant } = made.metadata;
    const own = { name, ...given({ tenant }) };
    if (volumeQuota === undefined && hasNoVolumes(made.spec))
      cli.out.note(
        `A quota bounds the storage of tenant ${tenant ?? "default"}, and nobody said how much of it this cluster may have: its claims for persistent volumes wait until its spec.quota.storage says so (vc create --volume-quota SIZE; of one that is there by gpvectl apply).`,
      );
    if (!input.flag("wait")) {
      await untilTold(cli, own);
      cli.out.done(`Virtual cluster ${name} is being made: gpvectl get vc ${vcObject(named)} -w`);
      return;
    }
    const { status } = await untilRunning(cli, own);
    cli.out.done(
      `Virtual cluster ${name} runs Kubernetes ${String(status?.["kubernetesVersion"])} at ${String(status?.["endpoint"])}: gpvectl vc kubeconfig ${vcWords(named)} --merge`,
    );
  },
};

/** PVE's words for what is missing on the pool of tenant `default`, and not on one inside it. */
const OF_DEFAULT = /\/pool\/default[,)]/;

/** Who names no tenant means `default`: whoever may not there is told where he may. */
async function orWhere(cli: Cli, { name, tenant }: VcName, refused: unknown): Promise<never> {
  if (tenant !== undefined || !(refused instanceof AppError) || refused.kind !== "forbidden") throw refused;
  // What is wanted of a node or a storage is missing in every tenant.
  if (!OF_DEFAULT.test(refused.message)) throw refused;
  const { pve } = await cli.client();
  const granted = await pve.get("/access/permissions", {}).catch((err: unknown) => {
    ignore(err, "the refusal says what is missing");
    return undefined;
  });
  const mine = Object.entries(isObject(granted) ? granted : {}).flatMap(([path, privileges]) =>
    path.startsWith("/pool/") && isObject(privileges) && "VC.Allocate" in privileges
      ? [path.slice("/pool/".length)]
      : [],
  );
  if (mine.length === 0 || mine.includes("default")) throw refused;
  const next = `Without --tenant it is of tenant default. You may make clusters in ${mine.join(", ")}: gpvectl vc create ${name} --tenant ${mine[0] ?? ""}.`;
  throw new AppError(refused.code, refused.message, { cause: refused, data: { ...refused.data, next } });
}

/** Of a tenant whose storage is bounded, where nobody said how much of it is for this one. */
function hasNoVolumes(spec: unknown): boolean {
  const quota = isObject(spec) ? spec["quota"] : undefined;
  return isObject(quota) && quota["storage"] === "0";
}
