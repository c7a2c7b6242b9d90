// Who may do what: the objects of PVE's access model as gpve keeps them.

export interface User {
  readonly userid: string;
  readonly enable: boolean;
  /** Seconds since the epoch; 0 = never. */
  readonly expire: number;
  readonly firstname?: string;
  readonly lastname?: string;
  readonly email?: string;
  readonly comment?: string;
  readonly keys?: string;
  /** Group ids, sorted. */
  readonly groups: readonly string[];
  /** The pool whose administrators manage the user; absent: those of the cluster alone do. */
  readonly tenant?: string;
}

export interface Group {
  readonly groupid: string;
  readonly comment?: string;
}

export interface Role {
  readonly roleid: string;
  /** Sorted. */
  readonly privileges: readonly string[];
}

export interface Token {
  readonly userid: string;
  readonly tokenid: string;
  /** true: the token has only what its own ACLs give, and never more than its owner. */
  readonly privsep: boolean;
  /** Seconds since the epoch; 0 = never. */
  readonly expire: number;
  readonly comment?: string;
}

export type AclSubject = "user" | "group" | "token";

export interface AclEntry {
  /** Normalised. */
  readonly path: string;
  readonly type: AclSubject;
  readonly ugid: string;
  readonly roleid: string;
  readonly propagate: boolean;
}

export interface Pool {
  /** Up to three levels, "a/b/c". */
  readonly poolid: string;
  readonly comment?: string;
  /** Ascending. A guest is in at most one pool. */
  readonly vms: readonly number[];
  /** Sorted. A storage may be in several pools. */
  readonly storage: readonly string[];
}

export interface Realm {
  readonly realm: string;
  readonly type: "pam" | "pve";
  readonly comment?: string;
  readonly default?: boolean;
  /** PVE's property string; its presence demands a second factor. */
  readonly tfa?: string;
}
