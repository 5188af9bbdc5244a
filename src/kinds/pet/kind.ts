import { defineKind, type ObjectOf } from '@echoperator/runtime';
import * as Type from 'typebox';
import { limits } from '../shared/limits.ts';

const petType = (description: string) => Type.Enum(['dog', 'cat', 'bird', 'reptile'], { description });
const day = (description: string) => Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}$', maxLength: 10, description });

/** A pet in the pet store. */
export const Pet = defineKind({
  group: 'petstore.example.com',
  version: 'v1alpha1',
  kind: 'Pet',
  plural: 'pets',
  shortNames: ['pt'],
  description:
    'Pet is a pet in the pet store: the operator adds the pet to the store, updates it, and deletes it with the Pet.',
  spec: Type.Object(
    {
      name: Type.String({
        minLength: 1,
        maxLength: limits.petName,
        pattern: '^[^\\x00]*[^\\s\\x00][^\\x00]*$',
        description:
          'The name of the pet. White space around it is removed. If the name changes, the existing pet is renamed.',
      }),
      type: petType('The type of the pet.'),
      birthday: Type.String({
        format: 'date-time',
        maxLength: limits.time,
        description: 'When the pet was born, in RFC 3339: 2020-01-31T00:00:00Z. The store keeps only the day, in UTC.',
      }),
    },
    { description: 'The pet.' },
  ),
  status: Type.Object(
    {
      id: Type.Optional(
        Type.String({
          maxLength: limits.petId,
          description: 'The id of the pet in the store. The operator identifies the pet by this id, not by its name.',
        }),
      ),
      intent: Type.Optional(
        Type.Object(
          {
            name: Type.String({ maxLength: limits.storedPetName, description: 'The name of the pet in the request.' }),
            type: petType('The type of the pet in the request.'),
            birthday: day('The day of birth of the pet in the request, in UTC.'),
            requestId: Type.String({
              maxLength: 64,
              description: 'The id of the request. A store that remembers request ids carries out each request once.',
            }),
            since: Type.String({
              format: 'date-time',
              maxLength: limits.time,
              description: 'When the operator recorded the request.',
            }),
            present: Type.Optional(
              Type.Array(Type.String({ maxLength: limits.petId }), {
                maxItems: limits.presentPets,
                'x-kubernetes-list-type': 'set',
                description:
                  'The ids of equal pets that were in the store before the request. They belong to others. Absent if the store remembers request ids.',
              }),
            ),
          },
          {
            description:
              'A request to add the pet. The operator records it before it sends the request, and removes it with the answer. If the answer is lost, this says which pet to search for.',
          },
        ),
      ),
    },
    { description: 'The pet in the store.' },
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

/** The finalizer of a Pet: it stays until its pet is deleted from the store. */
export const petFinalizer = 'pet.petstore.example.com';

/** A Pet as the API server stores it. */
export type Pet = ObjectOf<typeof Pet>;
