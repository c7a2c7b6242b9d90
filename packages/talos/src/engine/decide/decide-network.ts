// Names and ways out, as machines tell them themselves: judged before anything is built on them.
import { error } from "../../preflight/finding-report.ts";
import { formerAddressOf } from "../observe/machine-address.ts";
import { routeProblem } from "../default-routes.ts";
import { pairs, type Rule, stopping } from "../situation.ts";
import { configured, nodeOf } from "../world.ts";

/** etcd's members and nodes are known by names: of two with one name, the wrong one could be removed. */
export const refuseClashes: Rule = ({ world }) => {
  const owners = new Map<string, string[]>();
  for (const seen of world.machines.values()) {
    const announced = configured(seen)?.network?.announced;
    if (announced !== undefined) owners.set(announced, [...(owners.get(announced) ?? []), seen.name]);
  }
  const found = [...owners].flatMap(([hostname, names]) =>
    names.length > 1 ? [error("hostname-clash", names.join(", "), `each says that it is ${hostname}`)] : [],
  );
  return found.length === 0 ? undefined : stopping(...found);
};

/** Members of etcd and everybody's files know a machine by its address, and its configuration holds it there. */
export const refuseMoving: Rule = (situation) => {
  const { replacing } = situation.desired;
  const found = pairs(situation).flatMap(({ machine, seen }) => {
    const former = replacing.includes(machine.name) ? undefined : formerAddressOf(machine, seen);
    return former === undefined
      ? []
      : [
          error(
            "address-changes",
            machine.name,
            `it has ${former}, the file says ${machine.addresses.join(", ")}`,
          ),
        ];
  });
  return found.length === 0 ? undefined : stopping(...found);
};

/** A node under another name would be waited for in vain. */
export const refuseOtherNames: Rule = (situation) => {
  const { world } = situation;
  if (world.kubernetes === undefined) return undefined;
  const found = pairs(situation).flatMap(({ machine, seen }) => {
    const talos = configured(seen);
    const announced = talos?.network?.announced;
    const isSettled = talos?.isReady === true && talos.change === undefined;
    return isSettled &&
      announced !== undefined &&
      announced !== machine.hostname &&
      nodeOf(world, seen) === undefined
      ? [
          error(
            "hostname-differs",
            machine.name,
            `it says that it is ${announced}, the file says ${machine.hostname}`,
          ),
        ]
      : [];
  });
  return found.length === 0 ? undefined : stopping(...found);
};

/** Before they become members or nodes. Those that are already are left to `verify`. */
export const refuseRoutes: Rule = (situation) => {
  const { desired, world } = situation;
  const found = pairs(situation).flatMap(({ machine, seen }) => {
    const talos = configured(seen);
    const isIn = talos?.etcd !== undefined || nodeOf(world, seen) !== undefined;
    // Right after a boot there may be none for a moment.
    const isTold = talos?.network?.defaultRoutes !== undefined && talos.network.defaultRoutes.length > 0;
    const problem = isIn || !isTold ? undefined : routeProblem(desired.cluster.network, talos?.network ?? {});
    return problem === undefined ? [] : [error("default-route-wrong", machine.name, problem)];
  });
  return found.length === 0 ? undefined : stopping(...found);
};
