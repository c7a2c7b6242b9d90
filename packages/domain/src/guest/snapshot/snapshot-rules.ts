// What a kind of guest says of its configuration where snapshots are made, deleted and gone back to.
import type { GuestConfig, GuestValues } from "../guest-config.ts";

export interface GuestVolume {
  readonly key: string;
  readonly volid: string;
}

/** What a snapshot says of RAM that was saved with it; keys of its section. */
export type SavedState = GuestValues & { readonly vmstate: string };

/** `Start`: how a guest is started that goes on from saved RAM. */
export interface SnapshotRules<Start> {
  /** Refuses a guest whose RAM cannot be saved. */
  checkStateSavable(values: GuestValues): void;
  /** Volumes that a snapshot is made of, in their order. */
  volumes(values: GuestValues): readonly GuestVolume[];
  /** Every volume the values name: none of them is unused. */
  named(values: GuestValues): readonly string[];
  /** Of those, what is kept as unused once nothing names it. */
  kept(values: GuestValues): readonly string[];
  addUnused(values: GuestValues, volid: string): GuestValues;
  /** Volumes made anew whenever they are needed, which no snapshot has: a rollback removes them. */
  madeAnew(config: GuestConfig): readonly string[];
  /** The last touch to a configuration that goes back, and how the guest goes on; undefined = it stays off. */
  goBack(step: {
    readonly before: GuestValues;
    readonly values: GuestValues;
    readonly snapshot: GuestValues;
    readonly newUuid: () => string;
  }): { readonly values: GuestValues; readonly start: Start | undefined };
}
