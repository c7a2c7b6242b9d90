// The guard of a cluster before it gets workers: put up where it is made of objects, and seen to refuse. A pod that it would
// let through is root on this machine.
import { AppError } from "@gpve/contracts/errors.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import {
  guardKind,
  guardManifests,
  type GuardObject,
  isGuardsRefusal,
} from "@gpve/domain/vcluster/vnode/guard.ts";
import type { ClusterApi } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { expectStatus } from "./register-node.ts";

const API = "/apis/admissionregistration.k8s.io/v1";
const PLURALS: Readonly<Record<string, string>> = {
  ValidatingAdmissionPolicy: "validatingadmissionpolicies",
  ValidatingAdmissionPolicyBinding: "validatingadmissionpolicybindings",
};
/** What was put into the API takes a moment to bite. */
const STANDS_MS = 60_000;
const LOOK_MS = 200;
const MOST_ATTEMPTS = 5;

interface Found {
  readonly metadata?: { readonly resourceVersion?: string };
}

interface Ctx {
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Throws unless it stands. `keepsObjects`: others serve in a version that is guarded by them. */
export async function standGuard(
  api: ClusterApi,
  cluster: KeptCluster,
  ctx: Ctx,
  { keepsObjects = false }: { readonly keepsObjects?: boolean } = {},
): Promise<void> {
  // An administrator wants none: what belongs to the platform does all the same.
  if (cluster.spec.privileged === true) return requireRights(api, cluster, ctx.signal);
  const objects = guardManifests("objects");
  const isObjects = guardKind(cluster.version) === "objects";
  if (isObjects) for (const object of objects) await put(api, cluster, object, ctx.signal);
  await untilRefused(api, cluster, ctx);
  await requireRights(api, cluster, ctx.signal);
  // Left by the version before, and no longer what guards it.
  if (!isObjects && !keepsObjects)
    for (const object of objects.toReversed())
      await expectStatus(api, cluster, { method: "DELETE", path: pathOf(object) }, [200, 404], ctx.signal);
}

const collection = ({ kind }: GuardObject): string => `${API}/${PLURALS[kind] ?? kind}`;
const pathOf = (object: GuardObject): string => `${collection(object)}/${object.metadata.name}`;

/** One that is there may be a tenant's, made before there was a guard: nothing of it stays, conditions that let him through
 * and labels or owners that it could be deleted by included. */
async function put(
  api: ClusterApi,
  cluster: KeptCluster,
  object: GuardObject,
  signal: AbortSignal,
): Promise<void> {
  const path = pathOf(object);
  let said = "";
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    const made = await api(cluster, { method: "POST", path: collection(object), body: object }, signal);
    if (made.status === 201) return;
    const found = await api(cluster, { method: "GET", path }, signal);
    const { resourceVersion } = ((found.body ?? {}) as Found).metadata ?? {};
    const metadata = { name: object.metadata.name, resourceVersion };
    const put = await api(cluster, { method: "PUT", path, body: { ...object, metadata } }, signal);
    if (put.status === 200) return;
    // It is gone, or was changed meanwhile.
    const { message = "" } = (put.body ?? {}) as { readonly message?: string };
    said = `${put.status} ${message.slice(0, 200)}`;
  }
  throw new AppError(
    "internal.error",
    `virtual cluster ${cluster.name} gets no workers: its guard ${object.metadata.name} cannot be put up (its API answers ${said})`,
  );
}

/** As a tenant would try, and for nothing. */
async function untilRefused(api: ClusterApi, cluster: KeptCluster, { clock, signal }: Ctx): Promise<void> {
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { generateName: "gpve-guard-" },
    spec: { hostNetwork: true, containers: [{ name: "none", image: "none" }] },
  };
  const path = "/api/v1/namespaces/default/pods?dryRun=All";
  const until = clock.monotonic() + STANDS_MS;
  for (;;) {
    const { status, body } = await api(cluster, { method: "POST", path, body: pod }, signal);
    const { message = "" } = (body ?? {}) as { readonly message?: string };
    if (status >= 400 && isGuardsRefusal(message, cluster.version)) return;
    if (clock.monotonic() > until)
      throw new AppError(
        "internal.error",
        `virtual cluster ${cluster.name} gets no workers: its guard does not refuse a pod in the machine's network after ${STANDS_MS / 1000} s (its API answers ${status} ${message.slice(0, 200)})`,
      );
    await clock.sleep(LOOK_MS, signal);
  }
}

/** An API server that was started before it was told what belongs to the platform does not know it. */
async function requireRights(api: ClusterApi, cluster: KeptCluster, signal: AbortSignal): Promise<void> {
  const { status, body } = await api(
    cluster,
    {
      method: "POST",
      path: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
      body: {
        apiVersion: "authorization.k8s.io/v1",
        kind: "SubjectAccessReview",
        spec: {
          user: "gpve:nobody",
          resourceAttributes: { verb: "impersonate", resource: "groups", name: "system:masters" },
        },
      },
    },
    signal,
  );
  const answer = ((body ?? {}) as { readonly status?: { readonly denied?: boolean } }).status;
  if (status === 201 && answer?.denied === true) return;
  throw new AppError(
    "object.conflict",
    `virtual cluster ${cluster.name} gets no workers yet: its API server was started by an older release and does not know what belongs to the platform; stop it and start it once (gpvectl vc stop ${cluster.name}, gpvectl vc start ${cluster.name})`,
  );
}
