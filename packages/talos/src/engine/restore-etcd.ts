// etcd from a snapshot: only where no member is left, or the person says that what is left may go.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Machines } from "./machines-port.ts";
import type { Desired } from "./desired.ts";
import { mayHaveData } from "./decide/decide-beginning.ts";
import { etcdHealth } from "./quorum.ts";
import { controlPlanes, type World } from "./world.ts";

/** The machine it was begun on. All control planes must be configured and their etcd empty. */
export async function restoreEtcd(
  desired: Desired,
  world: World,
  talos: Machines,
  snapshot: Buffer,
): Promise<string> {
  if (etcdHealth(world) !== undefined) {
    throw new AppError("object.conflict", "etcd runs: a snapshot is only restored where it is gone", {
      data: { next: "To go back to a snapshot on purpose, reset all control planes first." },
    });
  }
  const unsure = controlPlanes(world).flatMap((seen) => mayHaveData(seen));
  if (unsure.length > 0) {
    throw new AppError("object.conflict", `etcd's data may still be there: ${unsure.join("; ")}`, {
      data: { finding: "bootstrap-unsure" },
    });
  }
  const first = desired.machines.find(
    ({ name, role }) => role === "controlplane" && world.machines.get(name)?.talos.state === "configured",
  );
  if (first === undefined) {
    throw new AppError(
      "object.not_found",
      "no control plane is configured: apply --only infrastructure first",
      {
        data: { finding: "etcd-lost" },
      },
    );
  }
  const client = await talos.member({ name: first.name, address: first.addresses[0] ?? "" });
  try {
    await client.etcdRecover(snapshot);
    await client.bootstrap(true);
  } finally {
    client.close();
  }
  return first.name;
}
