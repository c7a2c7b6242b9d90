import { alreadyThere, missing } from "@gpve/domain/request/failures.ts";
import { byText } from "@gpve/domain/access/sorting.ts";
import type { Group } from "@gpve/domain/access/types.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import { removeAclEntries } from "./acl.ts";
import { groupsDef, usersDef } from "@gpve/domain/access/collections.ts";
import { prefixed } from "./prefixed.ts";

export interface GroupView extends Group {
  readonly members: readonly string[];
}

const READERS = ["User.Modify", "Sys.Audit", "Group.Allocate"];

export class Groups {
  readonly #records: Records;
  readonly #directory: AccessDirectory;

  constructor({ records, directory }: { readonly records: Records; readonly directory: AccessDirectory }) {
    this.#records = records;
    this.#directory = directory;
  }

  list(ctx: RequestContext): GroupView[] {
    return [...this.#directory.model().groups.values()]
      .filter(({ groupid }) => ctx.access.has(`/access/groups/${groupid}`, READERS, "any"))
      .map((group) => this.#view(group));
  }

  get(groupid: string): GroupView {
    const group = this.#directory.model().groups.get(groupid);
    if (group === undefined) throw noSuchGroup(groupid);
    return this.#view(group);
  }

  create(groupid: string, comment: string | undefined): Promise<void> {
    return prefixed("create group failed", () =>
      this.#records.transact((tx) => {
        if (tx.get(groupsDef, groupid) !== undefined) throw alreadyThere(`group '${groupid}' already exists`);
        tx.put(groupsDef, groupid, groupOf(groupid, comment));
      }),
    );
  }

  update(groupid: string, comment: string | undefined): Promise<void> {
    return prefixed("update group failed", () =>
      this.#records.transact((tx) => {
        const group = tx.get(groupsDef, groupid);
        if (group === undefined) throw noSuchGroup(groupid);
        if (comment !== undefined) tx.put(groupsDef, groupid, groupOf(groupid, comment));
      }),
    );
  }

  remove(groupid: string): Promise<void> {
    return prefixed("delete group failed", () =>
      this.#records.transact((tx) => {
        if (tx.get(groupsDef, groupid) === undefined) throw noSuchGroup(groupid);
        tx.delete(groupsDef, groupid);
        for (const { id, value } of tx.list(usersDef)) {
          if (!value.groups.includes(groupid)) continue;
          tx.put(usersDef, id, { ...value, groups: value.groups.filter((other) => other !== groupid) });
        }
        removeAclEntries(tx, ({ type, ugid }) => type === "group" && ugid === groupid);
      }),
    );
  }

  #view(group: Group): GroupView {
    const members = this.#directory.model().members.get(group.groupid) ?? [];
    return { ...group, members: [...members].toSorted(byText) };
  }
}

function groupOf(groupid: string, comment: string | undefined): Group {
  return { groupid, ...(comment === undefined || comment === "" ? {} : { comment }) };
}

function noSuchGroup(groupid: string): Error {
  return missing(`group '${groupid}' does not exist`);
}
