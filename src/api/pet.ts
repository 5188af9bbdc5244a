import * as Type from 'typebox';
import { defineKind, type ObjectOf } from '../runtime/index.ts';

const petType = (description: string) => Type.Enum(['dog', 'cat', 'bird', 'reptile'], { description });
const day = (description: string) => Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}$', description });

/** A pet in the pet store. */
export const Pet = defineKind({
  group: 'petstore.example.com',
  version: 'v1alpha1',
  kind: 'Pet',
  plural: 'pets',
  shortNames: ['pt'],
  description: 'Pet is a pet in the pet store: the operator adds it there, keeps it as the spec says, and deletes it.',
  spec: Type.Object(
    {
      name: Type.String({
        minLength: 1,
        maxLength: 1024,
        pattern: '^[^\\x00]*[^\\s\\x00][^\\x00]*$',
        description: 'The pet’s name. White space around it is not kept. Another name renames the pet that there is.',
      }),
      type: petType('What the pet is.'),
      birthday: Type.String({
        format: 'date-time',
        description:
          'When the pet was born, as RFC 3339 has it: 2020-01-31T00:00:00Z. The store keeps the day, which is that of UTC.',
      }),
    },
    { description: 'The pet.' },
  ),
  status: Type.Object(
    {
      id: Type.Optional(
        Type.String({
          description: 'The pet’s id in the store. It is what the pet is found by, whatever its name is or was.',
        }),
      ),
      intent: Type.Optional(
        Type.Object(
          {
            name: Type.String({ description: 'The name with which the pet is added.' }),
            type: petType('The type with which the pet is added.'),
            birthday: day('The day of birth with which the pet is added, in UTC.'),
            requestId: Type.String({
              description: 'What the request is called: a store that knows the name of a request does it once.',
            }),
            since: Type.String({ format: 'date-time', description: 'When the operator wrote this down.' }),
          },
          {
            description:
              'The pet that is about to be added. Written before the store is asked, and removed with the answer: if that is lost, it says what to look for.',
          },
        ),
      ),
    },
    { description: 'What the store has.' },
  ),
  printerColumns: [
    { name: 'Name', type: 'string', jsonPath: '.spec.name' },
    { name: 'Type', type: 'string', jsonPath: '.spec.type' },
    { name: 'ID', type: 'string', jsonPath: '.status.id' },
    { name: 'Ready', type: 'string', jsonPath: ".status.conditions[?(@.type=='Ready')].status" },
    { name: 'Reason', type: 'string', jsonPath: ".status.conditions[?(@.type=='Ready')].reason", priority: 1 },
    { name: 'Birthday', type: 'string', jsonPath: '.spec.birthday', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
});

/** Keeps a Pet until its pet is deleted in the store. */
export const petFinalizer = 'pet.petstore.example.com';

/** A Pet as the API server stores it. */
export type Pet = ObjectOf<typeof Pet>;
