// A virtual cluster into one archive on a storage, also while it sleeps or is stopped. What does not come to its end leaves
// nothing there.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { clusterArchiveName } from "@gpve/domain/vcluster/backup/archive-name.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { ClusterSaves, OtherVolumes } from "@gpve/domain/vcluster/backup/cluster-saves.ts";
import type { VolumePeers } from "@gpve/domain/vcluster/backup/cluster-volumes.ts";
import { calledOf, type KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import type { ClusterPhases } from "../cluster-phases.ts";
import type { ArchivePlaces } from "./archive-places.ts";

export const BACKUP_CLUSTER = "vcbackup";

export interface ClusterBackupArgs {
  readonly name: string;
  readonly storage: string;
  readonly notes?: string;
  readonly protected?: boolean;
  /** What is kept; absent: what the storage says. */
  readonly prune?: string;
  /** Other nodes that may have volumes of it, each with the note by which it gives them. */
  readonly volumesFrom?: readonly { readonly node: string; readonly moveId: string }[];
}

type State = {
  /** Of the archive, without its folder. */
  file?: string;
};

export interface BackupOperationDeps {
  readonly phases: ClusterPhases;
  readonly saves: Pick<ClusterSaves, "pack" | "discard">;
  readonly places: ArchivePlaces;
  readonly peers: VolumePeers;
  readonly findMove: (moveId: string) => Promise<GuestMove | undefined>;
}

/** Nothing works on it then that its store would show half of. */
const CAN_BE_SAVED: readonly KeptCluster["phase"][] = ["Running", "Stopped", "Failed"];

export function backupClusterOperation(
  deps: BackupOperationDeps,
): OperationDefinition<ClusterBackupArgs, State> {
  const { phases, saves, places } = deps;
  return {
    type: BACKUP_CLUSTER,
    onCrash: "undo",
    initialState: () => ({}),
    steps: [
      {
        name: "save",
        weight: 9,
        run: async (ctx) => {
          const cluster = requireSaveable(phases.require(ctx.args.name));
          const place = await places.open(ctx.args.storage);
          ctx.state.file ??= await freeName(cluster, place, ctx);
          const { file } = ctx.state;
          await ctx.checkpoint();
          const manifest = await saves.pack(cluster, place.path(file), {
            signal: ctx.signal,
            say: ctx.log,
            others: otherVolumes(deps, ctx.args),
          });
          const { notes, protected: isProtected } = ctx.args;
          const { kubernetesVersion, revision, objects, volumes } = manifest;
          const facts = `virtual cluster ${cluster.tenant}/${calledOf(cluster)}, Kubernetes ${kubernetesVersion}, revision ${revision}, ${objects} keys, ${volumes.length} volumes`;
          await place.note(file, { notes: notes ?? facts, ...given({ protected: isProtected }) });
          ctx.log(facts);
          ctx.log(`archive: ${place.volid(file)}`);
        },
        undo: async ({ args, state }) => {
          if (state.file === undefined) return;
          const place = await places.open(args.storage);
          await saves.discard(place.path(state.file));
          await place.remove(state.file);
        },
      },
      {
        name: "prune",
        weight: 1,
        run: async (ctx) => {
          const owner = ownerOf(phases.require(ctx.args.name));
          const place = await places.open(ctx.args.storage);
          for (const file of await place.outdated(owner, ctx.args.prune)) {
            try {
              await place.remove(file);
              ctx.log(`removed, as no more are kept: ${place.volid(file)}`);
            } catch (err) {
              ctx.warn(`cannot remove ${place.volid(file)}: ${messageOf(err)}`);
            }
          }
        },
      },
    ],
  };
}

function otherVolumes(
  { peers, findMove }: BackupOperationDeps,
  { name, volumesFrom = [] }: ClusterBackupArgs,
): readonly OtherVolumes[] {
  return volumesFrom.map(({ node, moveId }) => ({
    node,
    open: async (signal) => {
      const move = await findMove(moveId);
      if (move?.purpose !== "volumes" || move.vcluster !== name)
        throw new AppError(
          "object.conflict",
          `no server has allowed node ${node} to give volumes of '${name}'`,
        );
      return peers.clusterVolumes(move, signal);
    },
  }));
}

function requireSaveable(cluster: KeptCluster): KeptCluster {
  if (CAN_BE_SAVED.includes(cluster.phase) && cluster.network !== undefined) return cluster;
  throw new AppError(
    "object.conflict",
    `virtual cluster '${cluster.name}' is ${cluster.phase}: it can be backed up while it is ${CAN_BE_SAVED.join(", ")}`,
  );
}

/** Archives are named as its tenant calls it. */
function ownerOf(cluster: KeptCluster): { readonly name: string; readonly tenant: string } {
  return { name: calledOf(cluster), tenant: cluster.tenant };
}

/** Archives are named by the second: one second, one archive. */
async function freeName(
  cluster: KeptCluster,
  place: Awaited<ReturnType<ArchivePlaces["open"]>>,
  { clock, signal }: Pick<StepContext, "clock" | "signal">,
): Promise<string> {
  for (;;) {
    const at = new Date(clock.now());
    const time = {
      year: at.getFullYear(),
      month: at.getMonth() + 1,
      day: at.getDate(),
      hour: at.getHours(),
      minute: at.getMinutes(),
      second: at.getSeconds(),
    };
    const file = clusterArchiveName({ ...ownerOf(cluster), time });
    const taken = await place.list(ownerOf(cluster));
    if (!taken.some((each) => each.file === file)) return file;
    await clock.sleep(1_000, signal);
  }
}
