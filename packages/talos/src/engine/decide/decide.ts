// From what is wanted and what was seen to what may be done next. Pure: the plan is this function asked again and again
// about the world as it would be, and whoever resumes after a crash asks it about the world as it is.
import { changeBalancer, makeBalancer, removeBalancer } from "./decide-balancer.ts";
import {
  changeHot,
  detachIso,
  makeGuests,
  makeImages,
  recordReplaced,
  recordReset,
  refuseRenaming,
  refuseShrinking,
} from "./decide-guests.ts";
import { refuseClashes, refuseMoving, refuseOtherNames, refuseRoutes } from "./decide-network.ts";
import { makeTemplates, removeTemplates } from "./decide-templates.ts";
import {
  addonsWhere,
  bootstrap,
  configure,
  join,
  nodesReady,
  reach,
  reachKubernetes,
  refuseForeign,
  refuseHidden,
  rejoin,
  removeStale,
  tellUnread,
} from "./decide-beginning.ts";
import { markNodes } from "./decide-marks.ts";
import { removeGone, removeOne, resetOne } from "./decide-removal.ts";
import { reconfigure, recordRotated, rotate, uncordon, upgradeKubernetes } from "./decide-upgrades.ts";
import { roll } from "./decide-wave.ts";
import type { ApplyPart, Desired } from "../desired.ts";
import { type Decision, NOTHING, type Rule } from "../situation.ts";
import type { World } from "../world.ts";

const network = addonsWhere((_name, isNetwork) => isNetwork);
const addons = addonsWhere(() => true);

/** In this order: the first rule that has something to say is followed, then everything is looked at again. */
const everything: readonly Rule[] = [
  refuseHidden,
  refuseForeign,
  refuseClashes,
  refuseRenaming,
  refuseMoving,
  removeStale,
  recordReplaced,
  recordReset,
  makeImages,
  makeTemplates,
  makeBalancer,
  makeGuests,
  changeHot,
  reach,
  configure,
  refuseRoutes,
  bootstrap,
  rejoin,
  join,
  reachKubernetes,
  network,
  refuseOtherNames,
  nodesReady,
  detachIso,
  uncordon,
  refuseShrinking,
  removeGone,
  removeOne,
  resetOne,
  reconfigure,
  markNodes,
  roll,
  rotate,
  recordRotated,
  upgradeKubernetes,
  addons,
  changeBalancer,
  removeBalancer,
  removeTemplates,
  tellUnread,
];

const parts: Readonly<Record<ApplyPart, readonly Rule[]>> = {
  infrastructure: [
    refuseHidden,
    refuseRenaming,
    refuseMoving,
    recordReplaced,
    makeImages,
    makeTemplates,
    makeBalancer,
    makeGuests,
    changeHot,
    refuseShrinking,
    changeBalancer,
    tellUnread,
  ],
  bootstrap: [
    refuseHidden,
    refuseForeign,
    refuseClashes,
    refuseMoving,
    removeStale,
    reach,
    configure,
    refuseRoutes,
    bootstrap,
    rejoin,
    join,
    reachKubernetes,
    network,
    refuseOtherNames,
    nodesReady,
    detachIso,
    tellUnread,
  ],
  addons: [reachKubernetes, network, nodesReady, addons],
  ccm: [reachKubernetes, addonsWhere((name) => name.endsWith("-ccm"))],
};

export function decide(desired: Desired, world: World): Decision {
  const rules = desired.only === undefined ? everything : parts[desired.only];
  for (const rule of rules) {
    const decision = rule({ desired, world });
    if (decision !== undefined) return decision;
  }
  return NOTHING;
}
